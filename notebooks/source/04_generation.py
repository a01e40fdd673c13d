# %% [markdown]
# # 04 · Generation
#
# **By the end** you will have shown that with a cache the tokens computed for a text grow like its
# length n, not like n², and your own sampler will have drawn a story inside the real engine.
#
# | | |
# |---|---|
# | time | 80 minutes, 30 more for the stretch at the end |
# | difficulty | medium |
# | you need | chapters 00 to 03, or their first pages; `sort`, `gather` and `where` in PyTorch |
# | you write | five functions and one answer in `exercises/ch04_generation.py` |
# | in vLLM | `vllm/v1/sample/sampler.py`, `vllm/v1/sample/ops/topk_topp_sampler.py` |
#
# A model gives a number for every token of its vocabulary: its **logits**, higher for what is
# likelier to come next. Two things are still missing: something must choose one token, and the next
# run should not work out again what the last one knew.
#
# ## Set-up

# %%
import matplotlib.pyplot as plt
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM
from transformers.generation import TopKLogitsWarper, TopPLogitsWarper
from transformers.utils.logging import disable_progress_bar

from minivllm import LLM, SamplingParams
from minivllm.counter_random import gumbel, uniform
from minivllm.course.checks.generation_draw import drawn
from minivllm.course.checks.generation_loops import cached_loop, naive_loop
from minivllm.course.checks.generation_model import DenseAttention, DenseModel, package_attention
from minivllm.course.frames.ch04 import computed_tokens, frames
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
from minivllm.sample.logits import apply_top_k_top_p

disable_progress_bar()
torch.set_grad_enabled(False)
setup("ch04")

# %% [markdown]
# ## Picture: the same tokens, again and again
#
# A prompt of 9 tokens, 24 new ones. Each new token takes one **run**: one forward pass of the
# model. The plain way gives each run the whole text so far. With a **cache**, which keeps what
# earlier runs have left, a run gets only what is new.

# %%
naive, cached = computed_tokens(num_prompt_tokens=9, num_new_tokens=24)
figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
runs = range(1, 25)
axes.bar(runs, naive, color=OKABE_ITO[2], edgecolor="black", label="whole text")
axes.bar(runs, cached, color=OKABE_ITO[6], edgecolor="black", hatch="//", label="with a cache")
axes.set(xlabel="run of the model", ylabel="tokens computed", xlim=(0.3, 24.7))
axes.legend(frameon=False, loc="upper left")
show(
    figure,
    summary=f"{sum(naive)} tokens are computed without a cache, {sum(cached)} with one.",
    alt="Bars for 24 runs of the model. Without a cache they grow from 9 tokens to 32. With one "
    "the first bar is 9 tokens, too, and each of the others is a single token.",
)
assert (sum(naive), sum(cached)) == (492, 32)

# %% [markdown]
# ## Where we are
#
# ```
# text → tokens → scheduler → model → logits → ██ sampler ██ → text
#                               ↕
#                         ██ KV cache ██
# ```
#
# Chapter 03 ended with logits. Nothing chooses from them yet, and nothing is kept between runs:
# each new token costs a run over everything before it.
#
# `DenseModel` is the shipped model with the simplest cache, a **dense** one: a row of places, as
# long as a text may get. `model(token_ids, num_computed)` computes these tokens at positions from
# `num_computed` on. Here are the likeliest tokens after a beginning.

# %%
model = DenseModel()
llm = LLM(device="cpu", max_model_len=256)
tokenizer = llm.get_tokenizer()
logits = model(tokenizer("Tom saw a big").input_ids, 0)
likeliest = logits[-1].topk(12)
words = [tokenizer.decode([token_id]) for token_id in likeliest.indices.tolist()]
print("logits:", tuple(logits.shape))
for word, prob in zip(words[:5], logits[-1].softmax(-1)[likeliest.indices], strict=False):
    print(f"{word:12}{prob:6.1%}")

# %% [markdown]
# ## By hand: four ways to choose
#
# Let four tokens have the probabilities 0.1, 0.5, 0.3 and 0.1.
#
# - **Greedy** takes the largest, always: token 1.
# - **Temperature** T divides the logits before the softmax. T = 0.5 squares the probabilities and
#   makes their sum 1 again: 0.01, 0.25, 0.09, 0.01, divided by 0.36. Low T sharpens, high T
#   flattens.
# - **Top-k** keeps the k largest: for k = 2 the tokens 1 and 2.
# - **Top-p** keeps the smallest set whose sum reaches a limit, called p. For p = 0.6, 0.5 is not
#   enough and 0.5 + 0.3 is: the tokens 1 and 2. The one that crosses the line stays.

# %% tags=["nbval-check-output"]
probs = torch.tensor([0.1, 0.5, 0.3, 0.1])
sharp = (probs.log() / 0.5).softmax(-1)
print([round(prob, 3) for prob in sharp.tolist()])
assert torch.allclose(sharp, torch.tensor([0.01, 0.25, 0.09, 0.01]) / 0.36)
no_top_k = torch.tensor([0])  # k = 0 keeps all
kept = apply_top_k_top_p(probs.log()[None], no_top_k, torch.tensor([0.6]))
assert kept[0].isfinite().tolist() == [False, True, True, False]

# %% [markdown]
# ### By hand: noise that draws
#
# To draw a token, give each one a number u between 0 and 1, turn it into noise -log(-log(u)), add
# it to the logit, and take the largest sum. This **Gumbel-max trick** draws with the softmax's
# probabilities, and each row of logits, one for each request, needs nothing but its own numbers.
#
# Here u is a hash of (seed, position, token): `uniform(seeds, positions, vocab_size)`. There is no
# generator that hands out numbers in turn. So a request gets the same noise whoever else is in
# the batch, and new noise at each position. We draw 20,000 times and count.

# %% tags=["nbval-check-output"]
noise = -(-uniform(torch.zeros(20_000).long(), torch.arange(20_000), 4).log()).log()
counts = (probs.log() + noise).argmax(-1).bincount()
print("drawn:", [round(n, 2) for n in (counts / 20_000).tolist()])
assert (counts / 20_000 - probs).abs().max() < 0.01
seeds, positions = torch.tensor([5, 6, 7]), torch.tensor([40, 2, 9])
crowd, alone = uniform(seeds, positions, 4), uniform(seeds[1:2], positions[1:2], 4)
assert torch.equal(crowd[1:2], alone)

# %% [markdown]
# ### By hand: two loops
#
# A prompt of 3 tokens and 2 new ones:
#
# | run | whole text | with a cache |
# |---|---|---|
# | 1 | 3 tokens | 3 tokens: the **prefill** |
# | 2 | 4 tokens | 1 token: a **decode** step |
#
# The second new token is never computed: nobody asks what follows it. For m tokens in and n out,
# that is n·m + n(n - 1) / 2 against m + n - 1.
#
# Why may results be kept at all? What the model makes of a token depends on it and on the tokens
# before it. Whatever comes later, it stays: the cell shows it for the logits.

# %%
token_ids = tokenizer("Tom saw a big dog").input_ids
torch.testing.assert_close(model(token_ids, 0)[:-1], model(token_ids[:-1], 0))
print(f"{len(token_ids) - 1} rows of logits: one token more at the end changes none")
assert computed_tokens(3, 2) == ([3, 4], [3, 1])
for m, n in ((3, 2), (9, 24), (50, 7)):
    naive, cached = computed_tokens(m, n)
    assert sum(naive) == n * m + n * (n - 1) // 2
    assert sum(cached) == m + n - 1

# %% [markdown]
# ## Predict, then run
#
# Choose first; each choice opens. Then run the cell below it.

# %%
predict(
    "100 tokens in, 100 out. How many tokens does the loop without a cache compute?",
    right="c",
    a=("199", "That is the loop with a cache: 100 + 100 - 1."),
    b=("10,000", "That would be 100 runs of the prompt alone; the text grows, too."),
    c=("14,950", "100 runs of 100 tokens, and 0 + 1 + ... + 99 = 4,950 more."),
)

# %% tags=["nbval-check-output"]
naive, cached = computed_tokens(100, 100)
print(f"{sum(naive):,} against {sum(cached)}")
assert (sum(naive), sum(cached)) == (14_950, 199)

# %%
predict(
    "The probabilities are 0.9, 0.06 and 0.04, and p is 0.5. How many tokens does top-p keep?",
    right="b",
    a=("none: 0.9 is more than 0.5", "Then nothing could be drawn. The crossing token stays."),
    b=("one", "The sum before it is 0, which is below p. So it is kept, and reaches p."),
    c=("two", "After the first token the sum is 0.9: p is reached already."),
)

# %% tags=["nbval-check-output"]
row = torch.tensor([[0.9, 0.06, 0.04]]).log()
kept = apply_top_k_top_p(row, no_top_k, torch.tensor([0.5]))
print("kept:", kept.isfinite().sum().item())
assert kept.isfinite().tolist() == [[True, False, False]]

# %% [markdown]
# ## Explore: three knobs
#
# The twelve likeliest tokens after "Tom saw a big", as if there were no others. Thin bars: what
# the model says. Thick bars: the chance to be drawn, or what rules the token out. Temperature acts
# first, then top-k, then top-p. Try T = 0.3 with p = 0.9, then T = 2: how many bars are left, and
# why?

# %%
LOGITS = dict(zip(words, likeliest.values.tolist(), strict=True))


def draw(temperature, top_k, top_p):
    bars = frames(LOGITS, temperature, top_k, top_p)
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    places = range(len(bars))
    axes.bar(places, [bar.after for bar in bars], color=OKABE_ITO[1], edgecolor="black")
    axes.bar(places, [bar.before for bar in bars], width=0.3, color=OKABE_ITO[5])
    top = max(max(bar.before, bar.after) for bar in bars)
    for place, bar in zip(places, bars, strict=True):
        text = bar.ruled_out_by or f"{bar.after:.2f}"
        height = max(bar.before, bar.after) + 0.02 * top
        axes.text(place, height, text, ha="center", va="bottom", fontsize=10)
    axes.set_xticks(places, [repr(bar.token)[1:-1] for bar in bars], rotation=35, ha="right")
    axes.set(ylabel="probability", ylim=(0, 1.15 * top))
    axes.set_title(f"temperature {temperature}, top-k {top_k or 'all'}, top-p {top_p}", fontsize=11)
    return figure


def describe(temperature, top_k, top_p):
    bars = frames(LOGITS, temperature, top_k, top_p)
    chances = [f"{bar.token.strip()} {bar.after:.2f}" for bar in bars if not bar.ruled_out_by]
    return (
        f"Bars of twelve tokens at temperature {temperature}, top-k {top_k}, top-p {top_p}. "
        f"{len(chances)} can be drawn: {', '.join(chances)}. The others are ruled out."
    )


explore(
    draw,
    alt=describe,
    temperature=[1.0, 0.0, 0.3, 0.7, 2.0],
    top_k=range(13),
    top_p=[0.9, 0.5, 1.0],
)

# %% [markdown]
# ## Exercise: `filter_logits`
#
# Top-k, then top-p over what top-k leaves. Open `exercises/ch04_generation.py`; the docstrings
# have the contract. A first red check is expected.
#
# | argument | shape | meaning |
# |---|---|---|
# | `logits` | `[num_rows, vocab_size]` | float32, one row a request |
# | `top_ks` | `[num_rows]` int64 | 0: all; ties with the k-th all stay |
# | `top_ps` | `[num_rows]` | 1: all; the crossing token stays; of equals, any |
# | returns | as `logits` | -inf where ruled out |
#
# <details><summary>Help: I see "index ... is out of bounds"</summary>k = 0 means all, and so does a
# k above the vocabulary. Both need a place that exists.</details>

# %% tags=["check"]
check("ch04.filter_logits")

# %%
hints("ch04.filter_logits")

# %% [markdown]
# ## Exercise: `sample`
#
# One token for each row of a mixed batch: some greedy, some at T = 0.7, some filtered.
#
# | argument | shape | meaning |
# |---|---|---|
# | `logits` | `[num_rows, vocab_size]` | any float dtype |
# | `temperatures` | `[num_rows]` | 0: greedy |
# | `keep` | a function | all rows in, finite float32; rows with -inf out |
# | `seeds`, `positions` | `[num_rows]` int64 | of the noise |
# | returns | `[num_rows]` int64 | token ids |
#
# The order is vLLM's: temperature, `keep`, draw. `keep` is passed in, so this exercise waits for
# no other.
#
# <details><summary>Help: I see "dtype int32, expected int64"</summary><code>argmax</code> gives
# int64, and so does <code>torch.where</code> of two of them: no conversion is needed.</details>

# %% tags=["check"]
check("ch04.sample")

# %%
hints("ch04.sample")

# %% [markdown]
# ## Exercise: `generate_naive`
#
# The loop without a cache. `model(token_ids, 0)` takes a list of ints and gives a row of logits for
# each token of the text; `choose(row, position)` gives the token, an int, that will stand at
# `position`. The check also counts what you ask of the model.
#
# | argument | type | meaning |
# |---|---|---|
# | `model`, `choose` | functions | see above |
# | `prompt` | list of ints | not changed |
# | `num_new_tokens` | int, 1 or more | how many to return |
# | returns | list of ints | the new tokens only |
#
# <details><summary>Help: I see "choose wants one row of logits"</summary>The model gives a row for
# each token. One of them is about the token that does not exist yet.</details>

# %% tags=["check"]
check("ch04.generate_naive")

# %%
hints("ch04.generate_naive")

# %% [markdown]
# ## Exercise: `cached_attention`
#
# What a run leaves are each token's **key** and **value** in each layer; they depend on it and on
# the tokens before it. Each layer keeps its own, in a **KV cache**. A dense one has
# a row for each request, with `max_len` slots; the token at position 5 lies in slot 5. With 2
# tokens in the cache and 2 new ones, start = 2, and the new ones see these slots:
#
# | new token | slot 0 | slot 1 | slot 2 | slot 3 |
# |---|---|---|---|---|
# | 0, written to slot 2 | yes | yes | yes | |
# | 1, written to slot 3 | yes | yes | yes | yes |
#
# | argument | shape |
# |---|---|
# | `q` | `[num_rows, num_new, num_heads, head_dim]` |
# | `k`, `v` | `[num_rows, num_new, num_kv_heads, head_dim]` |
# | `k_cache`, `v_cache` | `[num_rows, max_len, num_kv_heads, head_dim]`, written in place |
# | `num_computed` | `[num_rows]`: tokens of each row in the cache |
#
# `F.scaled_dot_product_attention` is allowed. In the check, slots never written hold NaN.
#
# <details><summary>Help: I see NaN</summary>A weight of 0 times NaN is NaN. A mask is not enough:
# read only the slots that were written.</details>

# %% tags=["check"]
check("ch04.cached_attention")

# %%
hints("ch04.cached_attention")

# %% [markdown]
# ## Exercise: `generate_cached`
#
# The same tokens, each computed once: a prefill, then decode runs of one token. `model` keeps the
# cache. You tell it where it stands.
#
# | argument | type | meaning |
# |---|---|---|
# | `model` | function | `model(token_ids, num_computed)` |
# | the others | | as in `generate_naive` |
# | returns | list of ints | the new tokens only |
#
# <details><summary>Help: the first token is right, the rest is not</summary>A wrong
# <code>num_computed</code> leaves a hole in the cache, or overwrites a token. In the first decode
# run, how many tokens are in the cache?</details>

# %% tags=["check"]
check("ch04.generate_cached")

# %%
hints("ch04.generate_cached")

# %% [markdown]
# ## Detective
#
# `first_tokens` computes several prompts in one prefill and chooses greedily. Prompts of unequal
# length are padded. Symptom: the longest prompt is always right; a short one is right alone, and
# wrong beside a longer one. Which line, and why? The answer goes into `detective()`.

# %%
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
prompts = [[7, 9], [3, 4, 5, 6, 11], [8, 1, 2]]
first_tokens = planted("ch04.detective")
together = first_tokens(lambda ids: tiny(ids).logits, prompts)
alone = [first_tokens(lambda ids: tiny(ids).logits, [prompt])[0] for prompt in prompts]
print("together:", together, "  alone:", alone)
assert together[1] == alone[1]
assert together != alone
listing("ch04.detective")

# %% tags=["check"]
check("ch04.detective")

# %%
hints("ch04.detective")

# %% [markdown]
# ## Measure: tokens
#
# From here on your functions take part as soon as they have passed; until then the course's own
# stand in. Both loops tell a story, and `model.runs` counts.

# %%
mine = {
    name: use_mine(f"ch04.{name}", otherwise=part, ask=True)
    for name, part in {
        "filter_logits": apply_top_k_top_p,
        "sample": drawn,
        "generate_naive": naive_loop,
        "cached_attention": package_attention,
        "generate_cached": cached_loop,
    }.items()
}


def greedy(row, position):
    return int(row.argmax())


prompt = tokenizer("Once upon a time there was a small dragon").input_ids
num_prompt = len(prompt)
model = DenseModel(mine["cached_attention"])
print(f"{'':22}{'predicted':>10}{'measured':>10}{'ratio':>7}")
counts = {}
for n in (8, 32, 64):
    stories = {}
    for name, predicted in (
        ("generate_naive", n * num_prompt + n * (n - 1) // 2),
        ("generate_cached", num_prompt + n - 1),
    ):
        model.runs.clear()
        stories[name] = mine[name](model, greedy, prompt, n)
        measured = counts[name, n] = sum(model.runs)
        print(f"{name:16}{n:6}{predicted:10,}{measured:10,}{measured / predicted:7.2f}")
        assert measured == predicted
    assert stories["generate_naive"] == stories["generate_cached"]
for name in stories:
    print(
        f"{name:16} from 32 to 64 tokens: {counts[name, 64] / counts[name, 32]:.1f} times the work"
    )
assert counts["generate_naive", 64] > 3 * counts["generate_naive", 32]
assert counts["generate_cached", 64] < 2 * counts["generate_cached", 32]
print(f"{tokenizer.decode(prompt)}|{tokenizer.decode(stories['generate_cached'])!r}")

# %% [markdown]
# Twice as many new tokens: more than three times the work without a cache; with one, less than
# twice. Now where does the work of a run go?
#
# A linear layer multiplies once for each weight and token, and adds as often: 2 operations.
# Attention has two products, query · key and weight · value, of 2 operations each: so 4 · keys ·
# heads · head_dim for each query and layer. That grows with the text. The pairs that the mask hides
# are computed, too, and counted below.

# %%
predict(
    "After how many tokens of text does attention take as many operations as all linear layers "
    "together, in one decode run of this model?",
    right="b",
    a=("about 80", "Attention would have to cost ten times as much for each key."),
    b=("about 830", "6.8 million weights, 2 operations each, over 16,384 for each key."),
    c=("never", "Linear layers cost the same at each position; attention grows with the text."),
)

# %% tags=["nbval-check-output"]
arch = model.arch
width, kv_width = arch.num_heads * arch.head_dim, arch.num_kv_heads * arch.head_dim
per_layer = arch.hidden_size * (2 * width + 2 * kv_width + 3 * arch.intermediate_size)
num_weights = arch.num_layers * per_layer + arch.vocab_size * arch.hidden_size
per_key = 4 * width * arch.num_layers
print(f"{num_weights:,} weights, {per_key:,} operations for each key")
assert 2 * num_weights / per_key == 832

# %%
package_model = DenseModel(package_attention)


def operations(num_new, num_computed):
    with FlopCounterMode(display=False) as counter:
        package_model([5] * num_new, num_computed)
    counts = counter.get_flop_counts()["Global"]
    attention = counts.pop(torch.ops.aten.bmm)
    return sum(counts.values()), attention


print(f"{'':28}{'predicted':>16}{'measured':>16}{'ratio':>7}")
for name, num_new, num_computed in (
    ("prefill of 960", 960, 0),
    ("decode after 16", 1, 16),
    ("decode after 960", 1, 960),
):
    measured = operations(num_new, num_computed)
    predicted = 2 * num_new * num_weights, per_key * num_new * (num_computed + num_new)
    for part, want, got in zip(("linear", "attention"), predicted, measured, strict=True):
        print(f"{name:18}{part:10}{want:16,}{got:16,}{got / want:7.2f}")
        assert got == want * (2 if part == "linear" and num_new == 1 else 1)
for num_new in (960, 1):
    print(f"{num_new:4} tokens: {2 * num_new / 2:5} operations for each byte of bfloat16 weights")
h100_operations, h100_bytes = 989e12, 3.35e12  # a second, by its data sheet: bfloat16, memory
print(f"an H100 computes {h100_operations / h100_bytes:.0f} while it reads one byte")
assert 1 < h100_operations / h100_bytes < 960

# %% [markdown]
# The ratio 2: to a single row the package adds a row of zeros (`minivllm/layers/linear.py`).
#
# Prefill and decode differ in another way. Both read all weights once. In bfloat16, 2 bytes each,
# the prefill does 960 operations for each byte, and the decode run 1. An H100 can do 295 while it
# reads one. So by its data sheet a decode run waits for memory, and a batch of requests can share
# the reading. Now the sampler.

# %%
row, one = package_model(prompt, 0)[-1:], torch.ones(1, dtype=torch.int64)


def greedy_row():
    return row.argmax(-1)


def drawn_row():
    filtered = apply_top_k_top_p(row / 0.8, 20 * one, 0.9 * one)
    return (filtered + gumbel(one, one, arch.vocab_size)).argmax(-1)


for choose in (greedy_row, drawn_row):
    with Spy() as spy:
        choose()
    print(f"{choose.__name__:12}{spy.num_ops:4} operators, {spy.bytes / 2**10:6.1f} KiB made")
    assert spy.bytes < 0.02 * 4 * num_weights  # a weight has 4 bytes

if torch.cuda.is_available():
    from torch.utils.benchmark import Timer

    names = {"model": DenseModel(device="cuda"), "ids": [5] * 960}
    names["model"](names["ids"], 0)
    for name, run in (("prefill of 960", "ids, 0"), ("decode after 960", "ids[:1], 960")):
        print(f"{name}: {Timer(f'model({run})', globals=names).timeit(20).median * 1e3:.1f} ms")
else:
    print("no GPU here: counted, not timed")

# %% [markdown]
# All tensors that the sampler makes are less than a fiftieth of the bytes of the weights. But it
# takes many small operators. A GPU must be told to start each one: a **launch**, see chapter 10.
#
# ## Break it: a cache that is too short
#
# One knob: `max_len`. A dense cache is made before anyone knows how long the text will be.

# %%
short = DenseModel(mine["cached_attention"], max_len=32)
try:
    mine["generate_cached"](short, greedy, prompt, 40)
except ValueError as error:
    print(error)
else:
    raise AssertionError("48 tokens can't fit into 32 slots")
used = (len(prompt) + 40 - 1) / model.max_len
mebibytes = model.cache_bytes / 2**20
print(f"With {model.max_len:,} slots: {mebibytes:.0f} MiB reserved, {used:.1%} of it used")
assert used < 0.05

# %% [markdown]
# Too short breaks, and long enough is nearly all waste. Chapter 07 gets rid of both.
#
# ## Compare
#
# First with the package: 48 rows of logits with all kinds of wishes, and a ragged cache, outputs
# and contents. Then the whole, your loop, draw and cache, against the engine with the same seed.
# Last with Hugging Face's transformers: its filters, and its greedy text with its own cache.

# %%
gen = torch.Generator().manual_seed(1)
rows = 4 * torch.randn(48, 4096, generator=gen)
top_ks, top_ps = torch.tensor([0, 20, 5] * 16), torch.tensor([1.0, 0.9, 0.5, 0.99] * 12)
assert torch.equal(
    mine["filter_logits"](rows, top_ks, top_ps), apply_top_k_top_p(rows, top_ks, top_ps)
)
q, k, v = (torch.randn(3, 2, heads, 16, generator=gen) for heads in (6, 2, 2))
num_computed, results = torch.tensor([5, 0, 9]), []
for attention in (mine["cached_attention"], package_attention):
    caches = [torch.zeros(3, 12, 2, 16), torch.zeros(3, 12, 2, 16)]
    results.append((attention(q, k, v, *caches, num_computed), *caches))
for got, expected in zip(*results, strict=True):
    torch.testing.assert_close(got, expected)
print("filters, attention and caches agree with the package")

# %%
beginning = "Once upon a time there was a small dragon"
params = SamplingParams(
    temperature=0.8, top_k=20, top_p=0.9, seed=7, max_tokens=32, ignore_eos=True
)


def draw_token(row, position):
    def keep(scaled):
        return mine["filter_logits"](scaled, torch.tensor([20]), torch.tensor([0.9]))

    seed, place = torch.tensor([7]), torch.tensor([position])
    return int(mine["sample"](row[None], torch.tensor([0.8]), keep, seed, place))


story = mine["generate_cached"](model, draw_token, prompt, 32)
engine_story = llm.generate(beginning, params, use_tqdm=False)[0].outputs[0].token_ids
assert story == list(engine_story)
print("32 drawn tokens, the same as the engine's:", repr(tokenizer.decode(story)))

# %%
no_k, no_p = torch.zeros(48, dtype=torch.int64), torch.ones(48)
theirs = TopKLogitsWarper(20)(None, rows), TopPLogitsWarper(0.9)(None, rows)
ours = (
    mine["filter_logits"](rows, no_k + 20, no_p),
    mine["filter_logits"](rows, no_k, 0.9 * no_p),
)
assert all(map(torch.equal, ours, theirs))
reference = AutoModelForCausalLM.from_pretrained(
    resolve_model("storyteller-7m"), dtype=torch.float32
)
output = reference.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=32)
assert output[0, len(prompt) :].tolist() == mine["generate_cached"](model, greedy, prompt, 32)
print("top-k, top-p and 32 greedy tokens agree with transformers")

# %% [markdown]
# ## Plug in
#
# `Parts(sampler=...)` puts your sampler into the real engine, which hands it all rows of a step at
# once. Your attention goes in, too. The engine cuts its cache into blocks (chapter 07); if a block
# is as long as a text may get, that is a dense cache. Three requests with different wishes run
# together, then each alone.


# %%
class MySampler:
    def __call__(self, logits, metadata):
        def keep(scaled):
            return mine["filter_logits"](scaled, metadata.top_ks, metadata.top_ps)

        seeds, positions = metadata.seeds, metadata.positions
        return mine["sample"](logits, metadata.temperatures, keep, seeds, positions)


parts = Parts(sampler=MySampler, attention=lambda: DenseAttention(mine["cached_attention"]))
beginnings = [beginning, "The dog had a red", "Tom saw a big"]
wishes = [
    SamplingParams(temperature=0, max_tokens=24),
    SamplingParams(temperature=0.8, top_k=20, top_p=0.9, seed=7, max_tokens=24),
    SamplingParams(temperature=1.2, seed=8, max_tokens=24),
]
expected = [out.output_text for out in llm.generate(beginnings, wishes, use_tqdm=False)]
with LLM(device="cpu", max_model_len=256, block_size=256, num_blocks=6, parts=parts) as my_llm:
    texts = [out.output_text for out in my_llm.generate(beginnings, wishes, use_tqdm=False)]
    alone = [
        my_llm.generate(text, wish, use_tqdm=False)[0].output_text
        for text, wish in zip(beginnings, wishes, strict=True)
    ]
for start, text in zip(beginnings, texts, strict=True):
    print(f"{start}|{text!r}")
assert texts == alone == expected
llm.shutdown()
whose = "the course's" if mine["sample"] is drawn else "your own"
print(f"Milestone: {whose} sampler draws in a real engine, the same alone and in a crowd.")

# %% [markdown]
# ## Recap
#
# - Greedy takes the largest logit; a temperature divides logits, row by row, before any filter.
# - Top-k keeps ties; top-p keeps the crossing token and goes back to vocabulary order.
# - Noise that is a hash of seed, position and token makes a request independent of its batch mates.
# - Keys and values never change later, so they are kept: computed tokens grow like n, not like n².
# - Prefill has much arithmetic for each weight it reads, decode little.
#
# **Questions**
#
# <details><summary>Why is the last new token never computed?</summary>Its logits would say what
# comes after it, and nobody asks.</details>
# <details><summary>Why not one random generator for the batch?</summary>It hands out numbers in
# turn. When a neighbour leaves, every later row gets other numbers.</details>
# <details><summary>Top-p at T = 2 keeps more tokens than at T = 0.5. Why?</summary>The filter comes
# after the temperature, and a flat distribution needs more tokens to reach p.</details>
# <details><summary>Which memory does a dense cache waste?</summary>All slots from the end of the
# text to <code>max_len</code>, in each row and layer.</details>
#
# **New words**: run, cache, dense, logits, greedy, temperature, top-k, top-p, Gumbel-max trick,
# prefill, decode, key, value, KV cache, launch.
#
# **Stretch**: give `frames` (`minivllm/course/frames/ch04.py`) a min-p knob (arXiv:2407.01082), or
# let `generate_cached` take a prompt in chunks of 4 tokens and show that no token changes.
#
# ## The real thing
#
# In vLLM `Sampler` (`vllm/v1/sample/sampler.py`) runs bans, penalties, temperature, min-p, top-k
# and top-p in this order; `TopKTopPSampler` (`vllm/v1/sample/ops/topk_topp_sampler.py`) filters and
# draws, on some GPUs with FlashInfer's kernels. vLLM keeps a `torch.Generator` for each request
# with a seed; the hash is minivllm's way to the same end. Its cache is in blocks (chapter 07). Left
# out here: penalties, min-p, beam search, speculative decoding, and stopping, which is chapter 11.
#
# - Holtzman et al., *The Curious Case of Neural Text Degeneration*, arXiv:1904.09751: top-p.
# - Fan et al., *Hierarchical Neural Story Generation*, arXiv:1805.04833: top-k.
# - Maddison et al., *A\* Sampling*, arXiv:1411.0030: the Gumbel-max trick.
# - Pope et al., *Efficiently Scaling Transformer Inference*, arXiv:2211.05102: prefill and decode.
#
# Next: chapter 05, attention that never makes the table of all pairs.
