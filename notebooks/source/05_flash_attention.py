# %% [markdown]
# # 05 · Flash attention
#
# **By the end** you will have shown that attention gives the same numbers without its table of all
# pairs, and that the engine tells the same story with it, token for token.
#
# | | |
# |---|---|
# | time | 75 minutes, 30 more for the stretch at the end |
# | difficulty | medium to hard |
# | you need | chapter 02 up to its first exercise; `exp` and `log` |
# | you write | four functions and one answer in `exercises/ch05_flash_attention.py` |
# | in vLLM | `vllm/v1/attention/backends/flash_attn.py`, `csrc/attention/merge_attn_states.cu` |
#
# Attention compares each token with each token before it. Written down, the comparisons make a
# table of S times S numbers for S tokens. This chapter computes the same output, and never writes
# the table down.
#
# ## Set-up

# %%
import math

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.patches import Rectangle
from torch.utils.flop_counter import FlopCounterMode
from transformers import AttentionInterface, Qwen3Config, Qwen3ForCausalLM

from minivllm import LLM, SamplingParams
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.attention.reference import ReferenceAttention
from minivllm.attention.sdpa import SdpaAttention
from minivllm.course.checks.flash_parts import (
    add_tile,
    merge_outputs,
    running_max_and_sum,
    tiled_attention,
)
from minivllm.course.frames.ch05 import frames, visited_tiles
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
from minivllm.course.spy import Spy
from minivllm.hub import resolve_model
from minivllm.parts import Parts

torch.set_grad_enabled(False)
setup("ch05")

# %% [markdown]
# ## Picture: a table that grows with the square
#
# `full_table` is attention as in chapter 02, with heads first: 8 query heads on 2 KV heads of 64,
# like the shipped model. `Spy` sees every tensor that is made, and we ask it for the largest.


# %%
def full_table(q, k, v):
    """The output and the log-sum-exp, by way of all scores."""
    keys, values = (x.repeat_interleave(len(q) // len(k), 0) for x in (k, v))
    scores = q @ keys.mT * q.shape[-1] ** -0.5
    positions = torch.arange(k.shape[1] - q.shape[1], k.shape[1])[:, None]
    scores = scores.masked_fill(torch.arange(k.shape[1]) > positions, -math.inf)
    return scores.softmax(-1) @ values, scores.logsumexp(-1)


def prompt(num_tokens):
    return [torch.randn(heads, num_tokens, 64) for heads in (8, 2, 2)]


def spied(function, *arguments):
    with Spy() as spy:
        function(*arguments)
    return spy


LENGTHS, TILES = (64, 128, 256, 512, 1024), (64, 64)
full = [4 * spied(full_table, *prompt(n)).largest for n in LENGTHS]
tiled = [4 * spied(tiled_attention, *prompt(n), 0, TILES, add_tile).largest for n in LENGTHS]

# %%
figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
axes.loglog(LENGTHS, full, "s-", color=OKABE_ITO[6], label="with the table")
axes.loglog(LENGTHS, tiled, "o--", color=OKABE_ITO[5], label="tile by tile")
axes.set_xticks(LENGTHS, LENGTHS)
axes.set_yticks([2**17, 2**20, 2**23, 2**25], ["128 KiB", "1 MiB", "8 MiB", "32 MiB"])
axes.minorticks_off()
axes.set(xlabel="tokens of the prompt", ylabel="largest tensor")
axes.legend(frameon=False)
show(
    figure,
    summary=f"At 1,024 tokens: {full[-1] / 2**20:.0f} MiB against {tiled[-1] / 2**20:.0f} MiB.",
    alt="Two lines over the length of a prompt, axes logarithmic. Both begin at 128 KiB for 64 "
    "tokens. With the table the largest tensor grows to 32 MiB at 1,024 tokens; tile by tile to "
    "2 MiB, half as steep.",
)
assert (full[-1], tiled[-1]) == (32 * 2**20, 2 * 2**20)

# %% [markdown]
# ## Where we are
#
# ```
# text → tokens → scheduler → ┌──────────────── model ─────────────────┐ → sampler → text
#                             │ embed → ██ attention ██ · MLP → logits │
#                             └────────────────────────────────────────┘
# ```
#
# The attention of chapter 02 is right, and the engine still has it: as `reference`. We give it a
# prompt of 800 tokens and watch. Its largest tensor is the table of one layer. Is that much?

# %%
long_prompt = {"prompt_token_ids": [5 + i % 1000 for i in range(800)]}
one_token = SamplingParams(temperature=0, max_tokens=1)
with (
    LLM(device="cpu", attention_backend="reference", max_num_batched_tokens=1024) as llm,
    Spy() as spy,
):
    llm.generate(long_prompt, one_token, use_tqdm=False)
model_bytes = (resolve_model("storyteller-7m") / "model.safetensors").stat().st_size
print(f"the table of one layer: {4 * spy.largest / 2**20:.1f} MiB")
print(f"the file of the whole model: {model_bytes / 2**20:.1f} MiB")
assert spy.largest == 8 * 800 * 800
assert 4 * spy.largest > model_bytes

# %% [markdown]
# ## By hand: a softmax in one pass
#
# One query, five keys. Each key has a **score** and a value. The output is the mean of the values,
# each weighted by exp(score). To keep exp from overflowing, the largest score is subtracted first.
# But we read the keys two at a time: each pair is a **tile**. The largest may come last.
#
# The scores are ln 1, ln 2 | ln 4, ln 1 | ln 8, the values 8, 4 | 2, 16 | 3. Three running numbers:
# the maximum, the sum of weights, and the **accumulator**, the weighted sum of values. Where the
# maximum grows, sum and accumulator are first multiplied by a **correction**, exp(old - new).
#
# | after | maximum | correction | sum | accumulator |
# |---|---|---|---|---|
# | tile 1 | ln 2 | | 1/2 + 1 = 3/2 | 8/2 + 4 = 8 |
# | tile 2 | ln 4 | 2/4 | 3/4 + 1 + 1/4 = 2 | 4 + 2 + 16/4 = 10 |
# | tile 3 | ln 8 | 4/8 | 1 + 1 = 2 | 5 + 3 = 8 |
#
# The output is 8 / 2 = 4.

# %%
scores = torch.tensor([1.0, 2.0, 4.0, 1.0, 8.0]).log()
values = torch.tensor([8.0, 4.0, 2.0, 16.0, 3.0])
steps = frames(scores.tolist(), values.tolist(), tile=2)
for f in steps:
    print(
        f"keys {f.start} to {f.stop - 1}: max ln {math.exp(f.row_max):.0f}, sum {f.row_sum:.2f}, "
        f"accumulator {f.acc:.2f}"
    )
assert math.isclose(steps[-1].output, 4, rel_tol=1e-6)
assert torch.isclose(scores.softmax(0) @ values, torch.tensor(4.0))

# %% [markdown]
# ### By hand: why the correction works
#
# What was summed against the old maximum is moved to the new one by one factor, for all keys alike:
#
# exp(s - new) = exp(s - old) · exp(old - new)
#
# This is the **rescaling identity**. The factor does not depend on the key. So sum and accumulator
# are multiplied once, and no earlier key is read again.

# %%
old, new = 2.0, 5.0
s = torch.tensor([1.0, 2.0, -3.0])
assert torch.allclose((s - new).exp(), (s - old).exp() * math.exp(old - new))
print(f"factor {math.exp(old - new):.4f}: always at most 1, so nothing overflows")

# %% [markdown]
# ### By hand: two halves
#
# The **log-sum-exp** of a row is the maximum plus the logarithm of the sum: here ln 8 + ln 2 =
# ln 16. It is the logarithm of the sum of all exp(score), whichever maximum was subtracted.
#
# Let one worker read keys 0 and 1, another the keys 2 to 4. The first has the output 16/3 and the
# log-sum-exp ln 3, the second 48/13 and ln 13. Their shares are 3/16 and 13/16:
#
# 3/16 · 16/3 + 13/16 · 48/13 = 1 + 3 = 4

# %%
halves = [(scores[i], values[i]) for i in (slice(0, 2), slice(2, 5))]
outs = [s.softmax(0) @ v for s, v in halves]
lses = [s.logsumexp(0) for s, _ in halves]
whole = torch.logaddexp(*lses)
merged = sum(torch.exp(lse - whole) * out for out, lse in zip(outs, lses, strict=True))
print([round(lse.exp().item()) for lse in (*lses, whole)], round(merged.item(), 4))
assert torch.isclose(merged, torch.tensor(4.0))

# %% [markdown]
# ## Predict, then run
#
# Choose first; each choice opens. Then run the cell below it.

# %%
predict(
    "8 heads, 32,768 tokens, float32: how large is the table of one layer?",
    right="c",
    a=("64 MiB", "That is q: 64 numbers for each head and token. The table has 32,768."),
    b=("1 GiB", "That would be one byte for each pair, and one head."),
    c=("32 GiB", "8 · 32,768 · 32,768 numbers of 4 bytes; a context that Qwen3 is made for."),
)

# %%
print(f"{8 * 32_768**2 * 4 / 2**30:.0f} GiB, q has {8 * 32_768 * 64 * 4 / 2**20:.0f} MiB")
assert 8 * 32_768**2 * 4 == 32 * 2**30

# %%
predict(
    "The running maximum goes from 2 to 5. What becomes of the old sum?",
    right="b",
    a=("it stays", "Then old keys would count exp(3), 20 times, too much."),
    b=("times exp(-3)", "Its terms were exp(s - 2) and must be exp(s - 5)."),
    c=("times exp(3)", "Upside down: against a larger maximum every weight is smaller."),
)

# %%
terms = torch.tensor([0.5, 1.0, 2.0])
ratio = (terms - 5).exp().sum() / (terms - 2).exp().sum()
print(f"{ratio:.4f} = exp({ratio.log():.0f})")
assert torch.isclose(ratio, torch.tensor(-3.0).exp())

# %%
predict(
    "A prompt of 1,024 tokens in tiles of 64 queries and 64 keys: 16 · 16 = 256 tiles. A token "
    "sees no later token. How many tiles must be computed?",
    right="b",
    a=("128, half of them", "The tiles on the diagonal are half seen, and must be computed."),
    b=("136", "1 + 2 + ... + 16: tile row i needs the tiles up to the diagonal."),
    c=("256", "Tiles above the diagonal are hidden from all their queries: they are skipped."),
)

# %%
visited = np.array(visited_tiles(1024, 1024, 0, TILES))
print(visited.sum(), "of", visited.size)
assert visited.sum() == 136

# %% [markdown]
# ### Which tiles are read
#
# 6 queries, 12 keys, tiles of 2 by 3. `offset` is the position of the first query: 0 at the left;
# 6 at the right, as in a **chunk** of a prompt whose first 6 tokens are done. In a dark tile some
# keys are hidden from some queries.

# %%
figure, both = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
for axes, offset in zip(both, (0, 6), strict=True):
    for i, row in enumerate(visited_tiles(6, 12, offset, (2, 3))):
        for j, is_read in enumerate(row):
            is_cut = is_read and 3 * j + 2 > offset + 2 * i
            color = OKABE_ITO[5] if is_cut else OKABE_ITO[2] if is_read else "white"
            box = Rectangle((3 * j, 2 * i), 3, 2, facecolor=color, edgecolor="black")
            axes.add_patch(box)
            text = "partly" if is_cut else "all" if is_read else "skipped"
            ink = "white" if is_cut else "black"
            axes.text(3 * j + 1.5, 2 * i + 1, text, ha="center", va="center", color=ink)
    axes.set(xlim=(0, 12), ylim=(6, 0), xlabel="key", ylabel="query", title=f"offset {offset}")
    axes.set(xticks=range(0, 13, 3), yticks=range(0, 7, 2))
show(
    figure,
    summary="With offset 0, 4 of 12 tiles are read; with offset 6, 11 of 12.",
    alt="Two grids of 3 by 4 tiles. Offset 0: the first row of queries reads one tile, the second "
    "and third read two, the rest is skipped. Offset 6: only the last tile of the first row is "
    "skipped. In each row the last tile that is read is read partly, those before it wholly.",
)

# %% [markdown]
# ## Explore: tile by tile
#
# One row of 12 scores, read in tiles of 3. The line is the running maximum. Step through the
# tiles: what happens to the correction where the maximum stays? Then try the other orders, and a
# sharpness of 8: which tile decides the output?

# %%
ROW = [0.4, 1.1, -0.6, 0.2, 2.1, -1.0, 1.4, 0.3, 3.0, -0.2, 0.9, 1.7]
VALUES = [2.0, 5.0, 1.0, 4.0, 3.0, 7.0, 6.0, 2.0, 8.0, 1.0, 5.0, 4.0]
ORDERS = {
    "mixed": list(range(12)),
    "rising": sorted(range(12), key=lambda i: ROW[i]),
    "falling": sorted(range(12), key=lambda i: -ROW[i]),
}


def stepped(order, sharpness):
    places = ORDERS[order]
    row = [sharpness * ROW[i] for i in places]
    return row, frames(row, [VALUES[i] for i in places], tile=3)


def draw(step, order, sharpness):
    row, steps = stepped(order, sharpness)
    now = steps[step]
    figure, (axes, below) = plt.subplots(
        2, 1, figsize=(8, 5), layout="constrained", height_ratios=(3, 2)
    )
    for i, score in enumerate(row):
        is_now, is_read = now.start <= i < now.stop, i < now.start
        color = OKABE_ITO[1] if is_now else OKABE_ITO[2] if is_read else "white"
        axes.bar(i, score, color=color, edgecolor="black", hatch="//" if is_now else "")
    for f in steps[: step + 1]:
        axes.plot((f.start - 0.5, f.stop - 0.5), (f.row_max, f.row_max), color="black", lw=2.5)
    for border in (2.5, 5.5, 8.5):
        axes.axvline(border, color="grey", lw=0.8, ls=":")
    axes.set(xticks=range(12), xlabel="key, in the order of reading", ylabel="score")
    axes.set_title("hatched: this tile; blue: read; white: not yet; line: maximum", fontsize=10)
    columns = ("tile", "maximum", "correction", "sum", "accumulator", "output so far")
    cells = [
        [f"{i + 1}"] + [f"{x:.3g}" for x in (f.row_max, f.correction, f.row_sum, f.acc, f.output)]
        for i, f in enumerate(steps)
    ]
    table = below.table(cells, colLabels=columns, loc="center", cellLoc="center")
    table.auto_set_font_size(False)
    table.set_fontsize(11)
    table.scale(1, 1.35)
    for column in range(len(columns)):
        table[step + 1, column].set_facecolor(OKABE_ITO[1])
        table[step + 1, column].set_text_props(weight="bold")
    below.axis("off")
    return figure


def describe(step, order, sharpness):
    _, steps = stepped(order, sharpness)
    told = [
        f"tile {i}: maximum {f.row_max:.3g}, correction {f.correction:.3g}, sum {f.row_sum:.3g}, "
        f"accumulator {f.acc:.3g}, output so far {f.output:.3g}"
        for i, f in enumerate(steps, start=1)
    ]
    return (
        f"Bars of 12 scores, {order}, sharpness {sharpness}, tile {step + 1} of 4 hatched, and a "
        f"table of all steps. {'; '.join(told)}."
    )


explore(draw, alt=describe, step=range(4), order=list(ORDERS), sharpness=[1, 8])

# %% [markdown]
# ## Exercise: `max_and_sum`
#
# Maximum and sum of each row, in one pass. The check hands the tiles over one by one. When the next
# comes, the memory of the last one is used again, as a chip does. Open
# `exercises/ch05_flash_attention.py`. A first red check is expected.
#
# | argument | shape | meaning |
# |---|---|---|
# | `tiles` | each `[num_rows, tile]` | float32; the last may be narrower; -inf is hidden |
# | returns | `[num_rows]`, twice | maximum; sum of exp(score - maximum) |
#
# A row may begin with a hidden tile, or hold nothing else: maximum -inf, sum 0.
#
# <details><summary>Help: I see NaN</summary>-inf minus -inf is NaN. Where the maximum is still
# -inf, subtract 0: exp(-inf - 0) is 0, as it should be.</details>

# %% tags=["check"]
check("ch05.max_and_sum")

# %%
hints("ch05.max_and_sum")

# %% [markdown]
# ## Exercise: `add_tile`
#
# One step of the table above, for many queries at once.
#
# | argument | shape | meaning |
# |---|---|---|
# | `row_max`, `row_sum` | `[..., num_queries]` | -inf and 0 at first |
# | `acc` | `[..., num_queries, head_dim]` | not divided |
# | `scores` | `[..., num_queries, tile]` | -inf is hidden |
# | `values` | `[..., tile, head_dim]` | float32 or float16 |
# | returns | the first three | new tensors, float32 |
#
# The dots stand for any axes, or none: in the next exercise, the heads.
#
# <details><summary>Help: I see "The size of tensor a must match the size of tensor b"</summary>The
# maximum has an axis less than the scores: <code>row_max[..., None]</code>.</details>

# %% tags=["check"]
check("ch05.add_tile")

# %%
hints("ch05.add_tile")

# %% [markdown]
# ## Exercise: `flash_forward`
#
# The walk over all tiles. `add_tile` is passed in, so this exercise waits for no other.
#
# | argument | shape | meaning |
# |---|---|---|
# | `q` | `[num_heads, num_queries, head_dim]` | float32 or float16 |
# | `k`, `v` | `[num_kv_heads, num_keys, head_dim]` | as in chapter 02, heads first |
# | `offset` | int | position of query 0; key j has position j |
# | `tiles` | two ints | queries and keys of a tile |
# | returns | as `q`; `[num_heads, num_queries]` | output; log-sum-exp in float32 |
#
# No length need be a multiple of a tile. A tile of keys that no query of its tile sees is not read:
# the check puts NaN there. With a negative `offset` the first queries see nothing, and without keys
# all of them: their output is 0, their log-sum-exp -inf.
#
# <details><summary>Help: the first tile of queries is right, the others are not</summary>What
# begins anew for each tile of queries? And which position has its first row?</details>

# %% tags=["check"]
check("ch05.flash_forward")

# %%
hints("ch05.flash_forward")

# %% [markdown]
# ## Exercise: `merge`
#
# Two workers have read two halves of the keys. Make one result of theirs.
#
# | argument | shape | meaning |
# |---|---|---|
# | `out_a`, `out_b` | `[..., num_queries, head_dim]` | finished outputs, divided |
# | `lse_a`, `lse_b` | `[..., num_queries]` | log-sum-exps; -inf: the half was empty |
# | returns | the same two | output in the dtype of `out_a`; log-sum-exp |
#
# Log-sum-exps of 200 occur, and exp(200) is infinite in float32. Both halves may be empty: output
# 0, log-sum-exp -inf.
#
# <details><summary>Help: only queries with two empty halves are wrong</summary>-inf minus -inf
# again. Their weights must come out as 0.</details>

# %% tags=["check"]
check("ch05.merge")

# %%
hints("ch05.merge")

# %% [markdown]
# ## Detective
#
# A GPU has an instruction for powers of 2, and `attend` uses it. Symptom: its outputs are right,
# for all keys and for each half. Merged by the log-sum-exps, the halves are wrong. Which line, and
# why? Write `return line, "letter"` in `detective()`.

# %%
attend = planted("ch05.detective")
q, k, v = (2 * torch.randn(n, 8) for n in (4, 10, 10))
out, _ = attend(q, k, v, 4)
right = ((q @ k.T * 8**-0.5).softmax(-1)) @ v
merged, _ = merge_outputs(*attend(q, k[:5], v[:5], 4), *attend(q, k[5:], v[5:], 4))
print(f"whole: off by {(out - right).abs().max():.2f}, merged: {(merged - right).abs().max():.2f}")
assert torch.allclose(out, right, atol=1e-4)
assert not torch.allclose(merged, right, atol=1e-2)
listing("ch05.detective")

# %% tags=["check"]
check("ch05.detective")

# %%
hints("ch05.detective")

# %% [markdown]
# ## Measure
#
# From here on your functions take part as soon as they have passed; until then the course's own
# stand in. Predict for 8 heads of 64, S tokens, tiles of 64 by 64:
#
# - largest tensor: 8 · S · S numbers with the table, 8 · S · 64 without: the output itself;
# - operations: a pair of query and key costs 64 multiplications and additions for its score, and
#   64 for its value: 256 operations. With the table all pairs of a head pay, else those of the
#   tiles that are read.

# %%
mine = {
    name: use_mine(f"ch05.{name}", otherwise=part, ask=True)
    for name, part in {
        "max_and_sum": running_max_and_sum,
        "add_tile": add_tile,
        "flash_forward": tiled_attention,
        "merge": merge_outputs,
    }.items()
}


def flash(q, k, v, offset, tiles=TILES):
    return mine["flash_forward"](q, k, v, offset, tiles, mine["add_tile"])


def operations(function, *arguments):
    with FlopCounterMode(display=False) as counter:
        function(*arguments)
    return counter.get_total_flops()


# %%
print(f"{'':36}{'predicted':>14}{'measured':>14}{'ratio':>7}")
for n in (256, 512, 1024):
    q, k, v = prompt(n)
    num_pairs = np.sum(visited_tiles(n, n, 0, TILES)) * 64 * 64
    for name, function, given, row_size, pairs in (
        ("table", full_table, (q, k, v), n, n * n),
        ("tiles", flash, (q, k, v, 0), 64, num_pairs),
    ):
        sizes = 4 * 8 * n * row_size, 4 * spied(function, *given).largest
        flops = 8 * 256 * pairs, operations(function, *given)
        for what, (predicted, measured) in (("largest, bytes", sizes), ("operations", flops)):
            label = f"{n:5} tokens, {name}, {what}"
            print(f"{label:36}{predicted:14,}{measured:14,}{measured / predicted:7.2f}")
            assert measured <= 2 * predicted  # what the check allows you

# %% [markdown]
# The largest tensor grows with S, no longer with S · S, and half the operations are gone. Is it
# faster, too? Here is what all tensors together take, that is, what is written to memory.

# %%
q, k, v = prompt(1024)
made = {"table": spied(full_table, q, k, v).bytes, "tiles": spied(flash, q, k, v, 0).bytes}
num_read = 136 * 64  # keys, and as many values, of each head: once for each tile
one_kernel = 4 * 8 * 64 * (2 * num_read + 2 * 1024)
for name, number in made.items():
    print(f"{name}: {number / 2**20:6.0f} MiB written in all")
print(f"one kernel would move {one_kernel / 2**20:.0f} MiB: q and output once, k and v by tiles")
assert one_kernel < min(made.values())
assert made["tiles"] > 0.4 * made["table"]
if torch.cuda.is_available():
    from torch.utils.benchmark import Timer

    names = {"q": q.cuda(), "k": k.cuda(), "v": v.cuda(), "full_table": full_table, "flash": flash}
    torch.set_default_device("cuda")  # for the positions of full_table
    for call in ("full_table(q, k, v)", "flash(q, k, v, 0)"):
        print(f"{call}: {Timer(call, globals=names).timeit(20).median * 1e3:.2f} ms")
    torch.set_default_device("cpu")
else:
    print("no GPU here: counted, not timed")

# %% [markdown]
# In all, tiles save little or nothing: in plain PyTorch each tile's scores, masks and weights are
# tensors that go to memory and come back. And there are many small operators. So don't expect it to
# be faster; only the peak is lower. The speed comes when a tile never leaves the chip, in one
# kernel: chapter 06.
#
# ## Break it: without the maximum
#
# One knob: how large the scores are. Left alone, `exp` of a score over 88 is infinite in float32.


# %%
def no_maximum(row_max, row_sum, acc, scores, values):
    weights = scores.exp()
    return torch.zeros_like(row_sum), row_sum + weights.sum(-1), acc + weights @ values


for sharpness in (1, 10, 40):
    given = (sharpness * q[:, :128], k[:, :128], v[:, :128], 0, TILES)
    naive, _ = tiled_attention(*given, no_maximum)
    safe, _ = flash(*given)
    print(
        f"sharpness {sharpness:2}: {naive.isfinite().float().mean():7.2%} finite without, "
        f"{safe.isfinite().float().mean():.0%} with the maximum"
    )
    assert safe.isfinite().all()
    assert naive.isfinite().all() == (sharpness < 40)

# %% [markdown]
# ## Compare
#
# First with the package. `TiledAttention` runs your functions on the engine's paged cache: it
# collects the keys of each request and calls `flash_forward`. A request with one new token is a
# decode step. There it lets two "workers" read half of the keys each, and merges.
#
# Then three requests share a step: a prompt of 20 tokens, one decode step after 33, a chunk of 7
# after 12. Their blocks of 16 lie anywhere.


# %%
chunk_starts = []  # the offsets of all calls with more than one query


class TiledAttention(ReferenceAttention):
    """Writes as its parent does, and attends with the learner's functions."""

    def attend(self, q, kv_cache, metadata, scale, sliding_window):
        assert sliding_window is None
        query_lens, seq_lens = metadata.query_lens_host.tolist(), metadata.seq_lens_host.tolist()
        parts = []
        for queries, num_keys, block_ids in zip(
            q.split(query_lens), seq_lens, metadata.block_table.long(), strict=True
        ):
            num_blocks = -(-num_keys // kv_cache.key.shape[1])
            k, v = (
                pages[block_ids[:num_blocks]].flatten(0, 1)[:num_keys].transpose(0, 1)
                for pages in kv_cache
            )
            out = self.one(queries.transpose(0, 1), k, v, num_keys - len(queries))
            parts.append(out.transpose(0, 1))
        return torch.cat(parts)

    def one(self, q, k, v, offset):
        if q.shape[1] > 1:
            chunk_starts.append(offset)
            return flash(q, k, v, offset, (16, 16))[0]
        half = k.shape[1] // 2
        first = flash(q, k[:, :half], v[:, :half], offset, (16, 16))
        second = flash(q, k[:, half:], v[:, half:], offset - half, (16, 16))
        return mine["merge"](*first, *second)[0]


# %%
metadata = AttentionMetadata(
    query_start_loc=torch.tensor([0, 20, 21, 28], dtype=torch.int32),
    seq_lens=torch.tensor([20, 34, 19], dtype=torch.int32),
    block_table=torch.tensor([[7, 2, 0], [3, 9, 5], [1, 8, 0]], dtype=torch.int32),
    slot_mapping=torch.zeros(28, dtype=torch.int64),
    query_lens_host=np.array([20, 1, 7], np.int32),
    seq_lens_host=np.array([20, 34, 19], np.int32),
)
cache = LayerKVCache(torch.randn(10, 16, 2, 64), torch.randn(10, 16, 2, 64))
q = torch.randn(28, 8, 64)
got = TiledAttention().attend(q, cache, metadata, 1 / 8, None)
package = SdpaAttention()
expected = package.attend(q, cache, package.build(metadata), 1 / 8, None)
torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)

q, k, v = prompt(100)
torch.testing.assert_close(flash(q, k, v, 0), full_table(q, k, v), rtol=1e-4, atol=1e-5)
logits = 20 * torch.randn(6, 4096)
row_max, row_sum = mine["max_and_sum"](iter(logits.split(500, -1)))
torch.testing.assert_close(row_max + row_sum.log(), logits.logsumexp(-1))
print("prompt, chunk and decode agree with the package; log-sum-exps with torch.logsumexp")

# %% [markdown]
# Now transformers. It lets us register an attention by name. A tiny random Qwen3 runs once with
# its own, and once with yours.


# %%
def for_transformers(module, query, key, value, attention_mask, **options):
    out, _ = flash(query[0], key[0], value[0], key.shape[2] - query.shape[2], (8, 8))
    return out.transpose(0, 1)[None], None


AttentionInterface.register("tiles", for_transformers)
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
tiny = Qwen3ForCausalLM(config).eval()
ids = torch.randint(50, (1, 37))
results = []
for name in ("eager", "tiles"):
    tiny.set_attn_implementation(name)
    results.append(tiny(ids).logits)
torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-3)
print("37 tokens through two layers: logits equal Hugging Face's")

# %% [markdown]
# ## Plug in
#
# `Parts(attention=...)` puts `TiledAttention` into the real engine. With at most 16 tokens a step,
# prompts come in chunks, beside requests that decode already.

# %%
beginnings = [
    "Once upon a time there was a small dragon who lived on a hill and had a red kite. One day",
    "The dog had a",
    "Tom saw a big box in the garden. He wanted to know what was in it, so he",
]
greedy = SamplingParams(temperature=0, max_tokens=32)


def stories(attention):
    parts = Parts(attention=attention)
    with LLM(device="cpu", max_model_len=256, max_num_batched_tokens=16, parts=parts) as llm:
        return llm.generate(beginnings, greedy, use_tqdm=False)


chunk_starts.clear()
told = stories(TiledAttention)
for beginning, output in zip(beginnings, told, strict=True):
    print(f"{beginning}|{output.output_text}")
print("chunks began at the positions", sorted(set(chunk_starts)))
assert max(chunk_starts) > 0
package_told = stories(None)
assert [x.outputs[0].token_ids for x in told] == [x.outputs[0].token_ids for x in package_told]
print("Milestone: the engine prefills with your tiles and decodes with your merge, same tokens.")

# %% [markdown]
# ## Recap
#
# - A softmax can be summed in one pass: maximum, sum and accumulator are enough.
# - A larger maximum rescales sum and accumulator by exp(old - new), at most 1.
# - Tiles hidden from all their queries are skipped: about half of a prompt's.
# - Maximum plus log of the sum is the log-sum-exp; with it, parts merge in any order.
# - Peak memory falls from S · S to S; speed needs one kernel.
#
# **Questions**
#
# <details><summary>Why is the accumulator not divided after each tile?</summary>The sum is not
# known before the last tile; dividing once is also cheaper.</details>
# <details><summary>Why may a row's first tile be all -inf?</summary>A worker may be given keys that
# come after the query, and a window may hide the early keys.</details>
# <details><summary>Two halves have equal log-sum-exps. What is the merged output?</summary>Their
# mean; the log-sum-exp grows by ln 2.</details>
# <details><summary>Why does decode gain nothing from skipping?</summary>Its one query sees all
# keys. Splitting the keys among workers helps, which is chapter 09.</details>
#
# **New words**: score, tile, accumulator, correction, rescaling identity, log-sum-exp, chunk,
# offset.
#
# **Stretch**: give `flash_forward` a sliding window, and skip tiles on the left, too. Or read the
# tiles of keys from right to left: what changes in the output, and what in the corrections?
#
# ## The real thing
#
# In vLLM `FlashAttentionImpl` (`vllm/v1/attention/backends/flash_attn.py`) calls
# `flash_attn_varlen_func`, one kernel for all requests of a step. `merge_attn_states` joins a
# shared prefix with each request's own keys (cascade attention), by log-sum-exps, as `merge` does.
# Left out here: the backward pass, dropout, windows, float8, and the overlap of loading with
# computing that makes these kernels fast.
#
# - Milakov and Gimelshein, *Online normalizer calculation for softmax*, arXiv:1805.02867.
# - Rabe and Staats, *Self-attention Does Not Need O(n²) Memory*, arXiv:2112.05682.
# - Dao et al., *FlashAttention*, arXiv:2205.14135.
# - Dao, *FlashAttention-2*, arXiv:2307.08691: divides once, at the end.
#
# Next: chapter 06, the same loop as a Triton kernel.
