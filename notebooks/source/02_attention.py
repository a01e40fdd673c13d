# %% [markdown]
# # 02 · Attention
#
# **By the end** you will have shown that one mask serves a whole prompt, a chunk of a prompt and a
# decode step, and that the engine tells the same story with your attention, token for token.
#
# | | |
# |---|---|
# | time | 75 minutes, 30 more for the stretch at the end |
# | difficulty | medium |
# | you need | chapter 00; `einsum` or batched products in PyTorch |
# | you write | four functions and one answer in `exercises/ch02_attention.py` |
# | in vLLM | `vllm/v1/attention/backends/flash_attn.py`, the class `FlashAttentionImpl` |
#
# Attention is the part of a model in which tokens read from each other. Each token has a **query**:
# what it looks for. Each has a **key**: what it can be found by. And each has a **value**: what is
# read from it. Queries are compared with keys, and values are mixed by how well they match.
#
# ## Set-up

# %%
import math
from itertools import pairwise

import matplotlib.pyplot as plt
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from transformers import AttentionInterface, DynamicCache, Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3Model

from minivllm import LLM, SamplingParams
from minivllm.attention.groups import PrefillGroup, VisibleKeys
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.attention.reference import ReferenceAttention
from minivllm.course.frames.ch02 import frames
from minivllm.course.notebook import (
    OKABE_ITO,
    check,
    explore,
    hints,
    listing,
    planted,
    predict,
    setup,
    show,
    use_mine,
)
from minivllm.parts import Parts

torch.set_grad_enabled(False)
setup("ch02")

# %% [markdown]
# ## Picture: most of the square is empty
#
# Three requests of 4, 20 and 5 tokens share the engine, with at most 16 tokens a step. Working
# through a prompt is **prefill**, a part of one is a **chunk**, and one new token is a **decode**
# step. An attention of our own takes notes of what each step brings, as (queries, keys) of each
# request. Keys are all of a request's tokens so far, the cached ones included.

# %% tags=["nbval-check-output"]
notes = []


class NoteTaker(ReferenceAttention):
    def build(self, metadata):
        lens = metadata.query_lens_host.tolist(), metadata.seq_lens_host.tolist()
        notes.append(list(zip(*lens, strict=True)))
        return metadata

    def attend(self, q, kv_cache, *rest):
        self.last_q, self.last_cache = q, kv_cache
        return super().attend(q, kv_cache, *rest)


def engine(attention=None):
    parts = Parts(attention=attention)
    return LLM(device="cpu", max_model_len=256, max_num_batched_tokens=16, parts=parts)


taker = NoteTaker()
prompts = [{"prompt_token_ids": list(range(10, 10 + n))} for n in (4, 20, 5)]
with engine(lambda: taker) as llm:
    llm.generate(prompts, SamplingParams(temperature=0, max_tokens=3), use_tqdm=False)
for number, lens in enumerate(notes, start=1):
    print(f"step {number}:", lens)
step = notes[1]
assert step == [(1, 5), (8, 20), (5, 5)]

# %%
requests = [frames(num_queries, num_keys - num_queries) for num_queries, num_keys in step]
num_rows, num_columns = (sum(lens) for lens in zip(*step, strict=True))
num_seen = sum(request.num_seen for request in requests)
figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
first_row, first_key = 0, 0
for request, color, hatch in zip(requests, (6, 5, 3), ("//", "", ".."), strict=True):
    for i, row in enumerate(request.rows):
        style = {"color": OKABE_ITO[color], "hatch": hatch, "edgecolor": "white", "height": 0.9}
        label = f"{request.kind}: {len(request.rows)} of {request.num_keys}"
        left = first_key + row.first
        axes.barh(first_row + i, row.num_seen, left=left, label="" if i else label, **style)
    first_row, first_key = first_row + len(request.rows), first_key + request.num_keys
    axes.axvline(first_key - 0.02, color="black", lw=1)
    axes.axhline(first_row - 0.5, color="black", lw=1)
axes.set(xlim=(0, num_columns), ylim=(num_rows - 0.5, -0.5))
axes.set(xlabel="keys of all requests, end to end", ylabel="rows of the step")
axes.legend(loc="upper right")
show(
    figure,
    summary=f"Of {num_rows} x {num_columns} = {num_rows * num_columns} scores, {num_seen} count.",
    alt="A grid of 14 rows and 30 columns, cut into three blocks along its diagonal. The first row "
    "is a decode step over 5 keys. The next 8 rows are a chunk: its first row sees 13 keys, its "
    "last 20. The last 5 rows are a whole prompt, a triangle. All the rest is empty.",
)
assert (num_rows, num_columns, num_seen) == (14, 30, 152)

# %% [markdown]
# ## Where we are
#
# ```
# text → tokens → scheduler → ┌─────────────── layer ────────────────┐ → sampler → text
#                             │ norm → qkv → ██ attention ██ → MLP   │
#                             └──────────────────↕───────────────────┘
#                                            KV cache
# ```
#
# Chapter 01 built the layer around attention. A training script's attention would break here: it
# has as many keys as queries, and one text. This adapter puts any attention into the engine. It
# gathers each request's keys from the cache and lays them end to end. (How the cache is laid out
# in pages is chapter 07's matter.)


# %%
def gather(pages, metadata):
    requests = zip(metadata.block_table, metadata.seq_lens.tolist(), strict=True)
    return torch.cat([pages[blocks].flatten(0, 1)[:seq_len] for blocks, seq_len in requests])


def backend(step_attention):
    class Backend(NoteTaker):
        def attend(self, q, kv_cache, metadata, scale, sliding_window):
            k, v = gather(kv_cache.key, metadata), gather(kv_cache.value, metadata)
            places = metadata.query_start_loc, metadata.seq_lens
            return step_attention(q, k, v, *places, sliding_window)

    return Backend


def training_attention(q, k, v, *_):
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return mixed.transpose(0, 1)


# %%
beginnings = ["Once upon a time, there was a little", "The dog had a red"]
greedy = SamplingParams(temperature=0, max_tokens=16)


def tell(name, attention=None):
    with engine(attention) as llm:
        notes.clear()
        outputs = llm.generate(beginnings, greedy, use_tqdm=False)
    for beginning, output in zip(beginnings, outputs, strict=True):
        print(f"{name:>8}: ... {beginning.split()[-1]}{output.output_text!r}")
    return [output.outputs[0].token_ids for output in outputs]


story = tell("engine")
broken = tell("training", backend(training_attention))
assert story != broken
assert story[0][0] == broken[0][0]

# %% [markdown]
# The first new token of the first request is right: its prompt began at row 0, with nothing cached.
# From then on, each row has earlier tokens in the cache, or neighbours from another request.
#
# ## By hand: a quarter and three quarters
#
# A **score** is the dot product of query and key, divided by the root of `head_dim`. The
# **softmax** makes weights of a row's scores: `exp` of each, divided by their sum.
#
# Let `head_dim` be 4, the query [2, 0, 0, 0], the keys [0, 0, 0, 0] and [ln 3, 0, 0, 0]. The dot
# products are 0 and 2 ln 3. Divided by 2: 0 and ln 3. Their `exp` is 1 and 3, so the weights are
# 1/4 and 3/4. With the values 4 and 8 the token reads 1 + 6 = 7.

# %% tags=["nbval-check-output"]
scores = torch.tensor([0.0, 2 * math.log(3)]) / 4**0.5
weights = scores.softmax(0)
print("weights", [round(w, 2) for w in weights.tolist()])
assert abs(weights @ torch.tensor([4.0, 8.0]) - 7) < 1e-5

# %% [markdown]
# ### By hand: the last two of five tokens
#
# A model that writes one token after the other must not look ahead: a token sees itself and those
# before it. That is **causal** attention. What a row may not see gets the score -inf, and `exp`
# makes 0 of that.
#
# Five tokens, three of them cached; this step computes the last two. They are rows 0 and 1 of `q`,
# but they stand at the positions 3 and 4:
#
# | | key 0 | key 1 | key 2 | key 3 | key 4 |
# |---|---|---|---|---|---|
# | row 0, position 3 | sees | sees | sees | sees | |
# | row 1, position 4 | sees | sees | sees | sees | sees |
#
# The number of cached tokens, here 3, is the mask's **offset**.

# %% tags=["nbval-check-output"]
for row in frames(queries=2, cached_tokens=3).rows:
    print(f"position {row.position} sees the keys {row.first} to {row.last}: {row.num_seen} keys")
assert [row.num_seen for row in frames(2, 3).rows] == [4, 5]

# %% [markdown]
# ### By hand: heads that share
#
# A layer attends several times side by side, in **heads**, each with its own queries. Keys and
# values must be kept for every token, so they are what fills the memory. **Grouped-query
# attention** (GQA) lets several query heads share one KV head. The shipped model has 8 query heads
# and 2 KV heads. The query heads 0 to 3 read KV head 0, 4 to 7 read KV head 1: neighbours share.

# %% tags=["nbval-check-output"]
print("KV head of each query head:", torch.arange(2).repeat_interleave(4).tolist())
assert [head // 4 for head in range(8)] == torch.arange(2).repeat_interleave(4).tolist()

# %% [markdown]
# ## Predict, then run
#
# Choose first; each choice opens. Then run the cell below it.

# %%
predict(
    "A decode step: one query, five keys. With is_causal=True, how many keys does PyTorch's "
    "attention let it see?",
    right="a",
    a=("1", "PyTorch puts row 0 at position 0. Nobody told it that four tokens were cached."),
    b=("4", "That would hide the token from itself. PyTorch does not know where the row stands."),
    c=("5", "It should. But PyTorch puts row 0 at position 0, and there is no offset to give."),
)

# %% tags=["nbval-check-output"]
q, k, v = torch.zeros(1, 1, 5), torch.zeros(1, 5, 5), torch.eye(5)[None]
weights = F.scaled_dot_product_attention(q, k, v, is_causal=True)
print("weights:", weights[0, 0].tolist())
assert int((weights > 0).sum()) == 1

# %%
predict(
    "Two whole prompts of 3 and 5 tokens, laid end to end. How many places of their mask are "
    "visible?",
    right="b",
    a=("36", "That is one causal text of 8 tokens: the second prompt would read the first."),
    b=("21", "Two triangles: 1 + 2 + 3 = 6, and 1 + 2 + 3 + 4 + 5 = 15."),
    c=("34", "Two squares, 9 + 25: within a request, too, no token sees a later one."),
)

# %% tags=["nbval-check-output"]
print(frames(3, 0).num_seen, "+", frames(5, 0).num_seen)
assert frames(3, 0).num_seen + frames(5, 0).num_seen == 21

# %%
predict(
    "The shipped model has 8 query heads and 2 KV heads. If each query head had its own KV head, "
    "how much larger would a token's keys and values be?",
    right="c",
    a=("as large", "Queries are not kept. What is kept grows with the number of KV heads."),
    b=("twice", "Keys and values grow, each by the same factor: 8 / 2."),
    c=("four times", "8 / 2. Queries are used once and never kept; keys and values are."),
)

# %% tags=["nbval-check-output"]
num_heads, head_dim = taker.last_q.shape[1:]
num_kv_heads = taker.last_cache.key.shape[2]
assert (num_heads, num_kv_heads) == (8, 2)
kept, without_groups = 2 * num_kv_heads * head_dim, 2 * num_heads * head_dim
print("numbers kept for each token and layer:", kept, "instead of", without_groups)
assert without_groups == 4 * kept

# %% [markdown]
# ## Explore: who sees what
#
# Rows are this step's queries, columns are all keys: cached ones left of the line, new ones right
# of it. Set the cached tokens to 0: a prefill. Set the queries to 1: a decode step. The rule never
# changes. A **sliding window** of 3 leaves each token only the last 3, itself included.


# %%
def draw(queries, cached_tokens, window):
    frame = frames(queries, cached_tokens, None if window == "none" else window)
    figure, axes = plt.subplots(figsize=(8, 0.42 * queries + 1.3), layout="constrained")
    for i, row in enumerate(frame.rows):
        for key in range(frame.num_keys):
            seen = row.first <= key <= row.last
            color = OKABE_ITO[5] if seen else "white"
            box = plt.Rectangle((key, i), 1, 1, facecolor=color, edgecolor="grey")
            axes.add_patch(box)
            mark = "sees" if seen else "·"
            ink = "white" if seen else "black"
            axes.text(key + 0.5, i + 0.5, mark, ha="center", va="center", color=ink, fontsize=10)
    axes.axvline(cached_tokens, color=OKABE_ITO[6], lw=4)
    axes.set(xlim=(0, max(9, frame.num_keys)), ylim=(queries, 0), xlabel="key")
    axes.set_xticks([key + 0.5 for key in range(frame.num_keys)], range(frame.num_keys))
    labels = [f"row {i}, position {row.position}" for i, row in enumerate(frame.rows)]
    axes.set_yticks([i + 0.5 for i in range(queries)], labels)
    axes.set_title(f"{frame.kind}: {queries} new, {cached_tokens} cached", fontsize=11)
    axes.spines[:].set_visible(False)
    return figure


def describe(queries, cached_tokens, window):
    frame = frames(queries, cached_tokens, None if window == "none" else window)
    rows = (f"position {row.position} sees keys {row.first} to {row.last}" for row in frame.rows)
    return (
        f"The mask of a {frame.kind} step; new tokens: {queries}, cached tokens: {cached_tokens}, "
        f"window {window}. " + "; ".join(rows) + f". {frame.num_seen} places are visible."
    )


explore(draw, alt=describe, queries=[3, 1, 2, 5], cached_tokens=[4, 0, 1, 8], window=["none", 3, 1])

# %% [markdown]
# ## Exercise: `attend`
#
# Write attention for one request, with a mask that somebody else has made. It says which query sees
# which key, and it need not be causal. Scores and softmax are float32 whatever `q` is. A row that
# sees nothing gives 0. `F.scaled_dot_product_attention` is the one thing that you may not call.
#
# | argument | shape | |
# |---|---|---|
# | `q` | `[num_queries, num_heads, head_dim]` | |
# | `k`, `v` | `[num_keys, num_kv_heads, head_dim]` | neighbours share a head |
# | `visible` | `[num_queries, num_keys]`, bool | True: sees |
# | returns | as `q` | dtype of `q` |
#
# Open `exercises/ch02_attention.py`, replace the line that raises, save, run the next cell.
# **Red is expected** at first.
#
# <details><summary>Help: I see "einsum(): subscript h has size 2 for operand 1 which does not
# broadcast with previously seen size 6"</summary>
#
# 6 query heads meet 2 KV heads. Repeat each KV head 3 times first, neighbours together.
#
# </details>

# %% tags=["check"]
check("ch02.attend")

# %%
hints("ch02.attend")

# %% [markdown]
# ## Exercise: `causal_mask`
#
# Write the mask of one request: for a prompt, a chunk and a decode step alike. The queries are the
# request's last tokens.
#
# | argument | | |
# |---|---|---|
# | `num_queries` | an int | 1 up to `num_keys` |
# | `num_keys` | an int | cached and new together |
# | `window` | an int or `None` | tokens that a query sees, itself included |
# | returns | `[num_queries, num_keys]`, bool | True: sees |
#
# An `if` for the kind of step is a sign that something went wrong: one comparison of positions
# serves all three.
#
# <details><summary>Help: I see "dtype float32, expected bool"</summary>
#
# You return 0 and -inf, to be added. Return the comparison itself.
#
# </details>

# %% tags=["check"]
check("ch02.causal_mask")

# %%
hints("ch02.causal_mask")

# %% [markdown]
# ## Exercise: `packed_mask`
#
# Now the mask of a whole step, as in the picture. The engine **packs** requests end to end and
# describes them with two lists. `query_start_loc` says where each request's rows begin, and, at its
# end, how many rows there are. `seq_lens` says how many keys each request has, those of this step
# included.
#
# By hand: `query_start_loc` [0, 1, 3] and `seq_lens` [2, 3] are a decode step with 2 keys, then 2
# rows with 3 keys:
#
# ```
# row 0    1 1 · · ·
# row 1    · · 1 1 ·
# row 2    · · 1 1 1
# ```
#
# | argument | shape |
# |---|---|
# | `query_start_loc` | `[num_reqs + 1]`, whole numbers; each request has a row or more |
# | `seq_lens` | `[num_reqs]`, whole numbers |
# | returns | `[num_tokens, sum of seq_lens]`, bool |
#
# <details><summary>Help: I see "shape (3,3), expected (3,5)"</summary>
#
# You made a column for each row. Columns are keys: as many as `seq_lens` adds up to.
#
# </details>

# %% tags=["check"]
check("ch02.packed_mask")

# %%
hints("ch02.packed_mask")

# %% [markdown]
# ## Exercise: `packed_attention`
#
# That mask works, but it hides most of what was computed. Here, compute no score between two
# requests at all, and pad none: where prompts are long, make no tensor larger than twice the scores
# of the largest request, all heads together. Call what you wrote above, or
# `F.scaled_dot_product_attention`.
#
# | argument | shape | |
# |---|---|---|
# | `q` | `[num_tokens, num_heads, head_dim]` | may end in padding rows |
# | `k`, `v` | `[num_keys, num_kv_heads, head_dim]` | may end in padding rows |
# | `query_start_loc`, `seq_lens` | as before | |
# | `window` | an int or `None` | as before |
# | returns | as `q` | padding rows give 0 |
#
# Padding may hold anything, even NaN.
#
# <details><summary>Help: I see "NOT STARTED" though I wrote it</summary>
#
# You call `attend` or `causal_mask`, which is not written yet.
#
# </details>

# %% tags=["check"]
check("ch02.packed_attention")

# %%
hints("ch02.packed_attention")

# %% [markdown]
# ## Detective: right in one piece, wrong in chunks
#
# This function passed its tests with whole prompts and with decode steps. In production, the same
# prompt gave other answers on busy days, when prompts are cut into chunks. The cell shows it, and
# the listing below it. Which line is wrong, and why? Write `return line, "letter"` in
# `detective()`.

# %% tags=["nbval-check-output"]
attend_step = planted("ch02.detective")
q, k, v = (torch.randn(6, num_heads, 8) for num_heads in (4, 2, 2))
whole = attend_step(q, k, v, 0)
for name, ends in (("whole", [0, 6]), ("3 + 3", [0, 3, 6]), ("1 at a time", range(7))):
    parts = [attend_step(q[a:b], k[:b], v[:b], a) for a, b in pairwise(ends)]
    wrong = (torch.cat(parts) - whole).abs().amax((1, 2)) > 1e-4
    print(f"{name:12} wrong rows:", wrong.nonzero().flatten().tolist())
listing("ch02.detective")

# %% tags=["check"]
check("ch02.detective")

# %% [markdown]
# ## Measure
#
# What does the picture's step cost? Two products make attention, queries with keys and weights with
# values. Each takes `2 * heads * rows * keys * head_dim` operations. Predict three ways on paper:
# each request alone, all under one mask, and padded to a rectangle of 8 rows and 20 keys for each
# request. Then count.
#
# `package_step` gives the package's attention the form of yours: pages of a single token.


# %%
def package_step(q, k, v, query_start_loc, seq_lens, window=None):
    keys = torch.arange(int(seq_lens.sum())).split(seq_lens.tolist())
    table = torch.nn.utils.rnn.pad_sequence(keys, batch_first=True)
    metadata = AttentionMetadata(
        query_start_loc=query_start_loc.int(),
        seq_lens=seq_lens.int(),
        block_table=table.int(),
        slot_mapping=torch.zeros(len(q), dtype=torch.int64),
        query_lens_host=query_start_loc.diff().int().numpy(),
        seq_lens_host=seq_lens.int().numpy(),
    )
    cache = LayerKVCache(k[:, None], v[:, None])
    return ReferenceAttention().attend(q, cache, metadata, q.shape[-1] ** -0.5, window)


def masked(q, k, v, visible):
    q, k, v = (x.transpose(-3, -2) for x in (q, k, v))
    mixed = F.scaled_dot_product_attention(q, k, v, visible, enable_gqa=True)
    return mixed.transpose(-3, -2)


def operations(function, *arguments):
    with FlopCounterMode(display=False) as counter:
        function(*arguments)
    return counter.get_total_flops()


# %% tags=["nbval-check-output"]
query_lens, seq_lens = (torch.tensor(lens) for lens in zip(*step, strict=True))
query_start_loc = F.pad(query_lens.cumsum(0), (1, 0))
q, k, v = (torch.randn(n, h, 64) for n, h in ((14, 8), (30, 2), (30, 2)))
all_pairs = torch.ones(14, 30, dtype=torch.bool)
padded = sum(operations(masked, q[:8], k[:20], v[:20], all_pairs[:8, :20]) for _ in range(3))
cache, item = taker.last_cache, taker.last_cache.key.element_size()
per_slot = (cache.key.nbytes + cache.value.nbytes) // cache.key.shape[:2].numel()
table = {
    "each alone": (
        4 * 8 * 64 * (1 * 5 + 8 * 20 + 5 * 5),
        operations(package_step, q, k, v, query_start_loc, seq_lens),
    ),
    "one mask": (4 * 8 * 64 * 14 * 30, operations(masked, q, k, v, all_pairs)),
    "rectangle": (4 * 8 * 64 * 3 * 8 * 20, padded),
    "cache bytes": (2 * 2 * 64 * item, per_slot),
}
print(f"{'':12}{'predicted':>12}{'measured':>12}{'ratio':>7}")
for name, (predicted, measured) in table.items():
    print(f"{name:12}{predicted:12,}{measured:12,}{measured / predicted:7.2f}")
    assert measured == predicted

# %% [markdown]
# The last row is what one token leaves in one layer's cache. The others are operations: one mask
# takes 2.2 times those of "each alone", the rectangle 2.5 times. Fewer operations are not always
# less time: a loop over requests launches its operators once for each of them. With many short
# requests on a GPU, those launches can cost more than the wasted scores. Real kernels do both: one
# launch, and no score between requests. The next cell times the two, if there is a GPU.

# %%
assert round(table["one mask"][1] / table["each alone"][1], 1) == 2.2
assert round(table["rectangle"][1] / table["each alone"][1], 1) == 2.5
if torch.cuda.is_available():
    from torch.utils.benchmark import Timer

    for num_reqs, size in ((64, 16), (4, 2048)):
        lens, total = [size] * num_reqs, num_reqs * size
        q, k, v = (torch.randn(1, h, total, 64, device="cuda").half() for h in (8, 2, 2))
        names = {"F": F, "q": q, "k": k, "v": v, "lens": lens, "kw": {"enable_gqa": True}}
        names["mask"] = torch.block_diag(*(torch.ones(n, n).tril() for n in lens)).bool().cuda()
        one = "F.scaled_dot_product_attention(q, k, v, mask, **kw)"
        loop = (
            "for a, b, c in zip(q.split(lens, 2), k.split(lens, 2), v.split(lens, 2)):\n"
            "    F.scaled_dot_product_attention(a, b, c, is_causal=True, **kw)"
        )
        times = [Timer(s, globals=names).timeit(20).median * 1e3 for s in (one, loop)]
        print(f"{num_reqs} x {size} tokens, float16:", end=" ")
        print(f"one mask {times[0]:.2f} ms, loop {times[1]:.2f} ms")
else:
    print("no GPU here: counted, not timed")

# %% [markdown]
# ## Break it: the diagonal, one place further
#
# One knob: the offset, shifted by 1 or by -1. Two tests look at it. Does a prompt in chunks of 4
# give what it gives in one piece? And does a change of the last token leave all earlier rows alone?


# %% tags=["nbval-check-output"]
def shifted(q, k, v, shift):
    visible = torch.ones(len(q), len(k), dtype=torch.bool).tril(len(k) - len(q) + shift)
    return masked(q, k, v, visible), int((~visible.any(1)).sum())


def both_tests(shift):
    q, k, v = (torch.randn(12, num_heads, 16) for num_heads in (6, 2, 2))
    whole, num_blind = shifted(q, k, v, shift)
    parts = [shifted(q[a:b], k[:b], v[:b], shift)[0] for a, b in pairwise((0, 4, 8, 12))]
    same_in_chunks = torch.allclose(torch.cat(parts), whole, atol=1e-5, equal_nan=True)
    k[-1], v[-1] = 1.0, 1.0
    changed, _ = shifted(q, k, v, shift)
    looks_ahead = not torch.equal(changed[:-1].nan_to_num(), whole[:-1].nan_to_num())
    return same_in_chunks, looks_ahead, num_blind


outcomes = {shift: both_tests(shift) for shift in (-1, 0, 1)}
for shift, (same_in_chunks, looks_ahead, num_blind) in outcomes.items():
    print(
        f"shift {shift:2}: chunks agree {same_in_chunks!s:6} looks ahead {looks_ahead!s:6} "
        f"rows that see nothing {num_blind}"
    )
assert outcomes == {-1: (True, False, 1), 0: (True, False, 0), 1: (False, True, 0)}

# %% [markdown]
# Shifted by 1, a token looks ahead, but only where the next token is in the same chunk: so answers
# depend on the chunk size. Shifted by -1, both tests stay green, and yet no token sees itself; the
# first one sees nothing at all. One test is not enough for a mask.
#
# ## Compare
#
# First with the finished package: its mask, and its attention on random steps. Until an exercise
# has passed, the package's part (for `attend`, PyTorch's) stands in for it.


# %%
def package_mask(num_queries, num_keys, window=None):
    positions = torch.arange(num_keys)[None]
    keys = VisibleKeys(positions, positions, torch.ones_like(positions, dtype=torch.bool))
    mask = PrefillGroup.make(slice(0, num_queries), keys, window).mask
    whole_prompt = torch.ones(num_queries, num_keys, dtype=torch.bool).tril()
    return whole_prompt if mask is None else mask  # None: PyTorch's own is_causal is right


def package_packed_mask(query_start_loc, seq_lens):
    lens = zip(query_start_loc.diff().tolist(), seq_lens.tolist(), strict=True)
    return torch.block_diag(*(package_mask(*pair) for pair in lens)).bool()


PACKAGE = {
    "attend": masked,
    "causal_mask": package_mask,
    "packed_mask": package_packed_mask,
    "packed_attention": package_step,
}
mine = {name: use_mine(f"ch02.{name}", otherwise=part, ask=True) for name, part in PACKAGE.items()}

# %% tags=["nbval-check-output"]
q, k, v = (torch.randn(n, h, 64) for n, h in ((14, 8), (30, 2), (30, 2)))
visible = mine["packed_mask"](query_start_loc, seq_lens)
assert int(visible.sum()) == num_seen
for pair in [*step, (3, 11)]:
    for window in (None, 1, 4):
        assert torch.equal(mine["causal_mask"](*pair, window), package_mask(*pair, window))
for window in (None, 4):
    expected = package_step(q, k, v, query_start_loc, seq_lens, window)
    got = mine["packed_attention"](q, k, v, query_start_loc, seq_lens, window)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
one_mask = mine["attend"](q, k, v, visible)
alone = mine["packed_attention"](q, k, v, query_start_loc, seq_lens)
torch.testing.assert_close(one_mask, alone, rtol=1e-5, atol=1e-5)
print(f"{num_seen} visible places; one mask = each alone = the package, with a window and without")

# %% [markdown]
# Now with Hugging Face's transformers. Its models take attention functions by name, so yours can
# run inside a small random Qwen3: a prompt of 7 tokens, a chunk of 4 and a decode step, with
# Hugging Face's own cache. Its built-in attention computes all 12 at once.


# %%
def my_attention(module, q, k, v, mask, **_):
    q, k, v = (x[0].transpose(0, 1) for x in (q, k, v))
    places = torch.tensor([0, len(q)]), torch.tensor([len(k)])
    return mine["packed_attention"](q, k, v, *places)[None], None


AttentionInterface.register("mine", my_attention)
torch.manual_seed(0)
config = Qwen3Config(
    vocab_size=50,
    hidden_size=48,
    intermediate_size=80,
    num_hidden_layers=2,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=16,
    initializer_range=0.2,
)
theirs, ids = Qwen3Model(config).eval(), torch.randint(50, (1, 12))
theirs.set_attn_implementation("eager")
expected = theirs(input_ids=ids).last_hidden_state
theirs.set_attn_implementation("mine")
cache = DynamicCache()
parts = [
    theirs(input_ids=ids[:, a:b], past_key_values=cache).last_hidden_state
    for a, b in pairwise((0, 7, 11, 12))
]
assert (torch.cat(parts, dim=1) - expected).abs().max() < 1e-4
print("prefill 7, chunk 4, decode 1: the same as Hugging Face's 12 at once, to 4 decimals")

# %% [markdown]
# ## Plug in
#
# `backend` from above puts your `packed_attention` into the engine. We add a third request with a
# long prompt, so that some step holds a prefill or a chunk beside decodes.

# %%
beginnings.append(
    "Tom and his sister Mia lived in a small house by the sea. One morning they found a big box "
    "in the garden. Mia wanted to open the"
)
package_story = tell("package")
my_story = tell("mine", backend(mine["packed_attention"]))
assert my_story == package_story
assert my_story[:2] == story

# %% tags=["nbval-check-output"]
kinds = [[frames(n, m - n).kind for n, m in lens] for lens in notes]
for kind in ("prefill", "chunk", "decode"):
    print(f"{kind:8}", sum(found.count(kind) for found in kinds))
assert any({"chunk", "decode"} <= set(found) for found in kinds)
print("Milestone: one mask has served them all; the story is the package's, token for token.")

# %% [markdown]
# ## Recap
#
# - Scores are dot products over the root of `head_dim`; what is hidden becomes -inf before the
#   softmax.
# - Query heads share KV heads, neighbours together; the cache shrinks by the size of a group.
# - Queries are a request's last tokens: the mask's offset is the number of cached tokens.
# - One comparison of positions serves prefill, chunk and decode; a window is a second one.
# - Packed requests are told apart by `query_start_loc` and `seq_lens`, not by a batch axis.
#
# **Questions**
#
# <details><summary>Why does a decode step need no mask at all?</summary>
#
# Its one query is the last token, and everything in the cache comes before it. The mask is a row of
# True. With a window, it is not.
#
# </details>
# <details><summary>Why must hidden scores become -inf, and not 0?</summary>
#
# `exp(0)` is 1: a hidden key would weigh as much as a seen one with the score 0.
#
# </details>
# <details><summary>A weight is exactly 0. May its value be NaN?</summary>
#
# No: 0 * NaN is NaN. Memory that was never written must not be read, weight or not.
#
# </details>
# <details><summary>Which mistakes of this chapter does a test with one whole prompt hide?</summary>
#
# A missing offset, keys cut out at the wrong place, and rows that see other requests.
#
# </details>
#
# **New words**: query, key, value, score, softmax, head, grouped-query attention, KV head, causal,
# offset, sliding window, packed.
#
# **Stretch** (30 minutes): give `packed_attention` a list of prefix lengths, so that tokens of a
# prefix see each other in both directions. Which of your tests would have to change?

# %% [markdown]
# ## The real thing
#
# - `vllm/v1/attention/backends/flash_attn.py`, `FlashAttentionImpl.forward`: one call,
#   `flash_attn_varlen_func`, for the whole step. It takes `cu_seqlens_q` (our `query_start_loc`),
#   `seqused_k` (our `seq_lens`) and the block table. No mask is ever stored: the kernel compares
#   positions, as you did.
# - `FlashAttentionMetadata`, in the same file: what a step tells all its layers.
# - `vllm/v1/worker/gpu_model_runner.py`: where those lists are made.
#
# It adds what we left out: quantised caches, ALiBi, soft caps on scores, attention sinks, a prefix
# that all requests share, and encoders.
#
# - Vaswani et al., *Attention Is All You Need*, arXiv:1706.03762: scores, softmax, heads.
# - Shazeer, *Fast Transformer Decoding: One Write-Head is All You Need*, arXiv:1911.02150: one KV
#   head for all.
# - Ainslie et al., *GQA*, arXiv:2305.13245: groups, between one head and all.
# - Jiang et al., *Mistral 7B*, arXiv:2310.06825: a sliding window in a model that is widely used.
#
# Next: chapter 03, the whole model, from its weights to text.
