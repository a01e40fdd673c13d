# %% [markdown]
# # 01 · Layers
#
# **By the end** you will have shown that a layer of your own gives the same numbers as Hugging
# Face's, and that the engine tells the same story with it, token for token.
#
# | | |
# |---|---|
# | time | 75 minutes, 30 more for the stretch at the end |
# | difficulty | medium |
# | you need | chapter 00; matrix products in PyTorch |
# | you write | five functions and one answer in `exercises/ch01_layers.py` |
# | in vLLM | `vllm/model_executor/layers/`: `layernorm.py`, `rotary_embedding/`, `activation.py` |
#
# A **layer** is the piece that a language model repeats. It mixes tokens in one half (attention,
# chapter 02) and works on each token by itself in the other. This chapter builds all of it except
# the mixing.
#
# ## Set-up

# %%
import cmath
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise

import matplotlib.pyplot as plt
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3Model

from minivllm import LLM, SamplingParams
from minivllm.course.frames.ch01 import frames
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
from minivllm.layers.mlp import SwiGLU
from minivllm.layers.norm import RMSNorm
from minivllm.layers.rope_parameters import RopeParameters
from minivllm.layers.rotary import RotaryEmbedding, apply_rotary
from minivllm.models.qwen3 import Qwen3DecoderLayer, Qwen3ForCausalLM
from minivllm.parallel import TensorParallel
from minivllm.parts import Parts

torch.set_grad_enabled(False)
setup("ch01")

# %% [markdown]
# ## Picture: a row is not a position
#
# An engine lays the tokens of a step end to end: one row for each, whichever request it belongs
# to. Here three requests of 6, 3 and 30 tokens share the engine, with at most 16 tokens a step.
# `Parts(model=...)` puts a model of our own in the engine: this one takes notes.

# %% tags=["nbval-check-output"]
seen = {"steps": []}


class NoteTaker(Qwen3ForCausalLM):
    def forward(self, input_ids, positions, kv_caches, attn_metadata):
        bounds = attn_metadata.query_start_loc.tolist()
        seen["steps"].append([positions[a:b].tolist() for a, b in pairwise(bounds)])
        seen["model"] = self
        return super().forward(input_ids, positions, kv_caches, attn_metadata)


def engine(model=None):
    return LLM(device="cpu", max_model_len=256, max_num_batched_tokens=16, parts=Parts(model=model))


prompts = [{"prompt_token_ids": list(range(10, 10 + n))} for n in (6, 3, 30)]
with engine(NoteTaker) as llm:
    llm.generate(prompts, SamplingParams(temperature=0, max_tokens=3), use_tqdm=False)
step = seen["steps"][1]
print("positions of the second step:", step)
assert step == [[6], [3], list(range(7, 21))]

# %%
figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
first_row = 0
for number, (positions, marker) in enumerate(zip(step, "osD", strict=True), start=1):
    rows = range(first_row, first_row + len(positions))
    label = f"request {number}: {len(positions)} row{'s' if len(positions) > 1 else ''}"
    color = OKABE_ITO[(5, 6, 3)[number - 1]]
    axes.plot(rows, positions, marker, ms=8, color=color, label=label)
    first_row += len(positions)
axes.plot(range(16), range(16), "--", color="black", label="the row's number")
axes.set(xlabel="row of the step", ylabel="position in its request")
axes.set(xticks=range(16), yticks=range(0, 21, 5))
axes.legend(frameon=False)
show(
    figure,
    summary="No row of this step stands at the position that its number suggests.",
    alt="Sixteen rows of one step and their positions. Row 0 is at position 6 of request 1, row 1 "
    "at position 3 of request 2, rows 2 to 15 at the positions 7 to 20 of request 3. A dashed "
    "line shows the row numbers; no point lies on it.",
)
assert all(row != place for row, place in enumerate(chain(*step)))

# %% [markdown]
# ## Where we are
#
# ```
# text → tokens → scheduler → ┌──────────── model ─────────────┐ → sampler → text
#                             │ embed → ██ layers ██ → logits  │
#                             └────────────────────────────────┘
# ```
#
# In chapter 00 the layers came from the package. A layer from a training script would break here:
# it sees sentences of equal length, so it may take the row's number for the position. We try that
# on two requests, and print what the positions of the first two steps should be and what they are.
# Only the first request's prompt still gets its right ones. Read both pairs of stories.


# %%
taken = []  # the right positions of each step, and the row numbers in their place


class RowNumbers(Qwen3ForCausalLM):
    def forward(self, input_ids, positions, *rest):
        row_numbers = torch.arange(len(positions))
        taken.append((positions.tolist(), row_numbers.tolist()))
        return super().forward(input_ids, row_numbers, *rest)


beginnings = ["Once upon a time, there was a little", "The dog had a red"]
greedy = SamplingParams(temperature=0, max_tokens=16)
stories = {}
for name, model in (("positions", None), ("row numbers", RowNumbers)):
    with engine(model) as llm:
        outputs = llm.generate(beginnings, greedy, use_tqdm=False)
    stories[name] = [output.outputs[0].token_ids for output in outputs]
    for beginning, output in zip(beginnings, outputs, strict=True):
        print(f"{name:>11}: ... {beginning.split()[-1]}{output.output_text}")
assert stories["positions"] != stories["row numbers"]
for right, row_numbers in taken[:2]:
    print(f"\npositions   {right}\nrow numbers {row_numbers}")
first, second = (len(output.prompt_token_ids) for output in outputs)
assert taken[0] == ([*range(first), *range(second)], [*range(first + second)])
assert taken[1] == ([first, second], [0, 1])

# %% [markdown]
# ## By hand: a norm
#
# Numbers that pass through many layers must stay in range. **RMSNorm** divides a row by its
# **root mean square**: square each number, take the mean, take the root. Then each place is
# multiplied by its own weight.
#
# The row 1, 7: the squares are 1 and 49, their mean is 25, the root is 5. So 1, 7 becomes 0.2,
# 1.4. Ten times the row gives the same.
#
# A row of zeros would be 0 / 0. So a small number, **eps**, is added to the mean before the root.

# %% tags=["nbval-check-output"]
row, eps = torch.tensor([1.0, 7.0]), 1e-6
for x in (row, 10 * row, 0 * row):
    print(x.tolist(), "→", [round(y, 4) for y in (x / (x.square().mean() + eps).sqrt()).tolist()])

# %% [markdown]
# ### By hand: a rotation
#
# Attention compares each token's **query** with earlier tokens' **keys** by dot products, and
# those know nothing of order. **RoPE** (rotary position embedding) turns queries and keys by
# angles that grow with the position.
#
# A **head** of 4 numbers is two **pairs**: elements 0 and 2, elements 1 and 3. The partner is
# half a head away, not next door. The speeds are powers of a number **theta**; here it is 100. So
# pair 0 turns 1 radian a token, and pair 1 turns `100 ** (-2 / 4)`, which is 0.1.
#
# A pair `x1, x2` that turns by `a` becomes `x1 * cos(a) - x2 * sin(a)` and
# `x2 * cos(a) + x1 * sin(a)`.
# At position 1, the head [1, 1, 1, 0] becomes [cos 1 - sin 1, cos 0.1, cos 1 + sin 1, sin 0.1].

# %% tags=["nbval-check-output"]
angles = 1 * torch.tensor([1.0, 100 ** (-2 / 4)])
cos, sin = angles.cos(), angles.sin()
x1, x2 = torch.tensor([1.0, 1.0]), torch.tensor([1.0, 0.0])  # the halves of the head
turned = torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin))
print([round(y, 4) for y in turned.tolist()])
assert torch.allclose(turned, torch.tensor([-0.3012, 0.9950, 1.3818, 0.0998]), atol=1e-4)

# %% [markdown]
# ## Predict, then run
#
# Choose first; each choice opens. Then run the cell below it.

# %%
predict(
    "A row holds 300 four times, in float16. What is the mean of its squares, in float16?",
    right="b",
    a=("90000", "That is the number, but float16 ends at 65504."),
    b=("infinity", "The square of 300 is 90000, and float16 ends at 65504: so norms use float32."),
    c=("65504, the largest", "Overflow gives infinity; it does not stop at the largest number."),
)

# %% tags=["nbval-check-output"]
big = torch.full((4,), 300.0, dtype=torch.float16)
print("float16:", big.square().mean().item(), "  float32:", big.float().square().mean().item())
assert big.square().mean().isinf()
assert torch.finfo(torch.float16).max == 65504

# %%
predict(
    "A query at position 8 and a key at 3: both move on by 1000. What becomes of their product?",
    right="a",
    a=("it stays", "Both turn by the same angle, and the angle between them is unchanged."),
    b=("it shrinks", "Turning keeps lengths; and both have turned by the same angle."),
    c=("it may change its sign", "Only if the angle between them changed, and it does not."),
)

# %%
rotary = RotaryEmbedding(RopeParameters(theta=1e6), head_dim=64)
heads = torch.randn(2, 1, 64)  # a query and a key


def score(query_position, key_position):
    cos_sin = rotary(torch.tensor([query_position, key_position]), torch.float32)
    query, key = apply_rotary(heads, *cos_sin)
    return (query * key).sum().item()


print(f"{score(8, 3):.2f} at 8 and 3, {score(1008, 1003):.2f} at 1008 and 1003")
print(f"{score(9, 3):.2f} at 9 and 3")
assert abs(score(8, 3) - score(1008, 1003)) < 1e-2 < abs(score(8, 3) - score(9, 3))

# %%
predict(
    "Two matrix products with the same input are computed as one, their weights stacked. How many "
    "operations (multiplications and additions) does that save?",
    right="c",
    a=("half", "Each output still needs its own row of weights."),
    b=("a third", "Nothing is shared but the input, and reading it is no operation."),
    c=("none", "It saves a call and a second reading of the input, not arithmetic."),
)

# %% tags=["nbval-check-output"]
x, first, second = torch.randn(5, 256), torch.randn(768, 256), torch.randn(768, 256)
with FlopCounterMode(display=False) as two:
    x @ first.T, x @ second.T
with FlopCounterMode(display=False) as one:
    x @ torch.cat((first, second)).T
print("operations of two:", two.get_total_flops(), "  of one:", one.get_total_flops())
assert two.get_total_flops() == one.get_total_flops() == 2 * 5 * 256 * 2 * 768

# %% [markdown]
# ## Explore: eight dials
#
# A head of 16 has eight pairs; each is a dial. The hand with the square end is the key, the round
# one the query; both pointed right before they were turned. Below each dial stands how many tokens
# a whole turn takes. The **score** is the mean over the dials of the cosine between the two hands:
# 1 if all agree, -1 if all are opposite.
#
# Change the position: all hands turn, and the score stays. At distance 4 the first dial has moved
# most, the last least: fast dials tell neighbours apart, slow ones near from far. `frames` computes
# what is drawn.


# %%
def tokens(number):
    return f"{number:.3g}" if number < 1e3 else f"{number / 1e3:.3g} k"


def draw(position, distance, theta):
    frame = frames(position, distance, theta)
    figure, axes = plt.subplots(figsize=(8, 2.0), layout="constrained")
    for i, dial in enumerate(frame.dials):
        center = complex(2.6 * i)
        axes.add_patch(plt.Circle((center.real, 0), 1, fill=False, color="grey"))
        for angle, color, end in ((dial.key, OKABE_ITO[1], "s"), (dial.query, OKABE_ITO[5], "o")):
            tip = center + cmath.rect(1, angle)
            axes.plot((center.real, tip.real), (0, tip.imag), color=color, lw=2)
            axes.plot(tip.real, tip.imag, end, color=color, ms=8 if end == "s" else 5)
        axes.text(center.real, -1.2, f"{tokens(dial.period)}\ntokens", ha="center", va="top")
        axes.text(center.real, 1.2, f"pair {i}", ha="center")
    axes.set(xlim=(-1.3, 19.5), ylim=(-2.3, 1.9), aspect="equal")
    axes.set_title(
        f"key (square) at {position}, query (round) at {position + distance}: "
        f"score {frame.score:.3f}",
        fontsize=11,
    )
    axes.axis("off")
    return figure


def describe(position, distance, theta):
    frame = frames(position, distance, theta)
    return (
        f"Eight dials, one for each pair of a head, with theta {theta:,}. The key is at position "
        f"{position}, the query {distance} tokens later. From the first pair to the last the query "
        "is ahead by " + ", ".join(f"{dial.between:.2g}" for dial in frame.dials) + " radians. "
        f"The score is {frame.score:.3f}."
    )


explore(
    draw,
    alt=describe,
    position=[3, 13, 103, 1003],
    distance=[4, 0, 16, 64, 256],
    theta=[10_000, 1_000_000],
)
scores = {round(frames(position, 4, 10_000).score, 6) for position in (3, 13, 103, 1003)}
apart = [dial.between for dial in frames(3, 4, 10_000).dials]
assert len(scores) == 1, "the score depends on the distance alone"
assert apart == sorted(apart, reverse=True), "the first dial is the fastest"

# %% [markdown]
# ## Exercise: `rms_norm`
#
# Write the norm for any number of rows: squares and mean in float32, the result in the dtype of
# `x`. `F.rms_norm` is the one thing that you may not call.
#
# | argument | shape | |
# |---|---|---|
# | `x` | `[..., size]` | not changed |
# | `weight` | `[size]` | dtype of `x` |
# | `eps` | a float | inside the root |
# | returns | `[..., size]` | dtype of `x` |
#
# Open `exercises/ch01_layers.py`, replace the line that raises, save, run the next cell again.
# **Red is expected** at first: a report says what differs, where, and what to try.
#
# <details><summary>Help: I see "The size of tensor a (12) must match the size of tensor b
# (5)"</summary>
#
# The mean has lost its axis. `keepdim=True` keeps it, so that each row is divided by its own
# number.
#
# </details>

# %% tags=["check"]
check("ch01.rms_norm")

# %%
hints("ch01.rms_norm")

# %% [markdown]
# ## Exercise: `add_rms_norm`
#
# Along the layers runs one sum, the **residual**. Each part (attention, MLP) reads the normed sum,
# and its output is added to the sum. So an add is always followed by a norm. vLLM **fuses** the
# two: one call, two results.
#
# | argument | shape | |
# |---|---|---|
# | `x`, `residual` | `[num_tokens, size]` | not changed |
# | `weight`, `eps` | `[size]`, a float | as before |
# | returns | `(normed, new_residual)` | both as `x` |
#
# The new residual is the sum *before* the norm. You may call your `rms_norm`, or `F.rms_norm`.
#
# <details><summary>Help: I see "NOT STARTED" though I wrote it</summary>
#
# You call `rms_norm`, which is not written yet. Write it, or call `F.rms_norm`.
#
# </details>

# %% tags=["check"]
check("ch01.add_rms_norm")

# %%
hints("ch01.add_rms_norm")

# %% [markdown]
# ## Exercise: `rope`
#
# Turn every head of every token. Pair `i` is made of elements `i` and `i + head_dim / 2`; at
# position `p` it turns by `a = p * theta ** (-2 * i / head_dim)`:
#
# - first half: `x1 * cos(a) - x2 * sin(a)`
# - second half: `x2 * cos(a) + x1 * sin(a)`
#
# | argument | shape | |
# |---|---|---|
# | `x` | `[num_tokens, num_heads, head_dim]` | not changed |
# | `positions` | `[num_tokens]`, whole numbers | any order: `[7, 3, 100]` |
# | `theta` | a float | 1,000,000 in Qwen3 |
# | returns | as `x` | |
#
# Angles are float32, whatever `x` is; "Break it" shows why.
#
# <details><summary>Help: I see "index 7 is out of bounds for dimension 0 with size 3"</summary>
#
# A table with a row for each row of `x` is too short: the first of three tokens may be at position
# 7. Compute the angles from `positions`.
#
# </details>

# %% tags=["check"]
check("ch01.rope")

# %%
hints("ch01.rope")

# %% [markdown]
# ## Exercise: `split_qkv`
#
# One product gives a token's queries, keys and values side by side. The parts are unequal: several
# query heads share one key head and one value head (chapter 02 says why). With 8 query heads and 2
# key and value heads, a row holds 12 heads: 8 q, 2 k, 2 v.
#
# Cut the row into heads. Then norm each query head and each key head by itself: the mean is taken
# over the `head_dim` numbers of that head. Values stay as they are.
#
# | argument | shape |
# |---|---|
# | `qkv` | `[num_tokens, (num_heads + 2 * num_kv_heads) * head_dim]` |
# | `q_weight`, `k_weight` | `[head_dim]` |
# | returns | `q`, `k`, `v`, each `[num_tokens, heads, head_dim]` |
#
# <details><summary>Help: I see "not enough values to unpack", or "shape '[1, 2, 2]' is
# invalid for input of size 3"</summary>
#
# `chunk(3)` cuts into equal thirds, and the parts are unequal. Give `split` the three sizes.
#
# </details>

# %% tags=["check"]
check("ch01.split_qkv")

# %%
hints("ch01.split_qkv")

# %% [markdown]
# ## Exercise: `swiglu`
#
# The second half of a layer is a small network, the **MLP**. It has many **units**. Each unit has a
# value (**up**) and a valve (**gate**); `silu(a) = a * sigmoid(a)` opens the valve:
#
# `down(silu(gate) * up)`
#
# One product gives all gates, then all ups: the weights are stacked. By hand: for gate 2, up 1,
# sigmoid(2) is 0.8808, so the unit gives 2 * 0.8808 * 1 = 1.7616.
#
# | argument | shape |
# |---|---|
# | `x` | `[num_tokens, hidden_size]` |
# | `gate_up_weight` | `[2 * intermediate_size, hidden_size]` |
# | `down_weight` | `[hidden_size, intermediate_size]` |
# | returns | as `x`, dtype of `x`; float16 too |
#
# In float16, `exp(12)` is infinite: a silu made of exponentials needs float32, or `F.silu`.
#
# <details><summary>Help: I see "mat1 and mat2 shapes cannot be multiplied"</summary>
#
# A weight is stored as `[outputs, inputs]`: it is `x @ weight.T`.
#
# </details>

# %% tags=["check"]
check("ch01.swiglu")

# %%
hints("ch01.swiglu")

# %% [markdown]
# ## Detective: the attention that nobody hears
#
# Someone stacked layers with `add_rms_norm`. Each test of a single part is green. But with MLPs
# that give zeros, the result is the same whether attention works or is switched off. The cell runs
# it with attention off and on, then prints the listing. Which line is wrong, and why? Write
# `return line, "letter"` in `detective()`.

# %%
run_layers = planted("ch01.detective")
x, ones = torch.tensor([[1.0, 7.0]]), torch.ones(2)
for strength in (0.0, 3.0):
    layer = (lambda y, s=strength: s * y.flip(-1), ones, torch.zeros_like, ones)
    result = run_layers(x, [layer, layer], ones, 1e-6)
    print(f"attention times {strength:.0f}:", [round(y, 3) for y in result[0].tolist()])
listing("ch01.detective")

# %% tags=["check"]
check("ch01.detective")

# %% [markdown]
# ## Measure
#
# What does a layer of the storyteller cost for 64 tokens in float32 (4 bytes a number)? Its sizes:
# `hidden` 256 numbers a token, 512 units, 768 rows of the fused qkv weight, 512 query numbers.
# The model is the one that the note taker at the top kept, `seen["model"]`.
#
# First the matrix products, on paper: `[tokens, a]` with `[b, a]` takes `2 * tokens * a * b`
# operations.

# %% tags=["nbval-check-output"]
layer, num_tokens = seen["model"].model.layers[0], 64
norm, mlp, qkv_proj = layer.input_layernorm, layer.mlp, layer.self_attn.qkv_proj
hidden, inter = norm.weight.numel(), mlp.down_proj.weight.shape[1]
rows, queries = qkv_proj.weight.shape[0], layer.self_attn.o_proj.weight.shape[1]
assert (hidden, inter, rows, queries) == (256, 512, 768, 512)
x = torch.randn(num_tokens, hidden)


def operations(function):
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


def compare(table):
    print(f"{'':18}{'predicted':>12}{'measured':>12}{'ratio':>7}")
    for name, (predicted, measured) in table.items():
        print(f"{name:18}{predicted:12,}{measured:12,}{measured / predicted:7.2f}")
        assert measured == predicted


compare(
    {
        "qkv, operations": (2 * num_tokens * hidden * rows, operations(partial(qkv_proj, x))),
        "MLP, operations": (2 * num_tokens * hidden * 3 * inter, operations(partial(mlp, x))),
    }
)

# %% [markdown]
# Norm and rotation hold no matrix product. Predict the bytes of the tensors that they make;
# `Spy` adds them up while the function runs.
#
# - RMSNorm makes three tensors of `tokens * hidden` (squares, normed, weighted) and three of
#   `tokens` (mean, plus eps, root);
# - RoPE on the queries makes three tensors of their size (times cos, halves swapped, sum).

# %% tags=["nbval-check-output"]
head_dim = layer.self_attn.head_dim
q = torch.randn(num_tokens, queries // head_dim, head_dim)
cos_sin = seen["model"].model.rotary_emb(torch.arange(num_tokens), torch.float32)


def bytes_made(function):
    with Spy() as spy:
        function()
    return spy.bytes


compare(
    {
        "RMSNorm, bytes": (4 * 3 * num_tokens * (hidden + 1), bytes_made(partial(norm, x))),
        "RoPE on q, bytes": (4 * 3 * q.numel(), bytes_made(partial(apply_rotary, q, *cos_sin))),
    }
)

# %% [markdown]
# Engines fuse norm and rotation with what stands beside them: a tensor that is never made is
# neither written nor read again. A fused product saves the start of a GPU kernel, but no
# operations, so don't expect it to be twice as fast. The next cell times one against two, if there
# is a GPU.

# %%
if torch.cuda.is_available():
    from torch.utils.benchmark import Timer

    fused = mlp.gate_up_proj.weight.to("cuda")
    gate_weight, up_weight = fused.chunk(2)
    for num_rows in (1, 4096):
        x = torch.randn(num_rows, hidden, device="cuda")
        names = {"x": x, "w": fused, "g": gate_weight, "u": up_weight}
        one = Timer("x @ w.T", globals=names).timeit(200).median * 1e6
        two = Timer("x @ g.T, x @ u.T", globals=names).timeit(200).median * 1e6
        print(f"{num_rows:5} rows: one product {one:.0f} us, two {two:.0f} us")
else:
    print("no GPU here: counted, not timed")

# %% [markdown]
# ## Break it: positions in bfloat16
#
# One knob: the dtype of the positions. bfloat16 keeps 8 significant bits, so 257 does not exist in
# it. Two neighbouring tokens then get the same angles, and nothing tells them apart. All positions
# up to 256 are exact: a test with 100 tokens never sees this mistake.

# %% tags=["nbval-check-output"]
places, head = torch.tensor([255, 256, 257, 258]), heads[:1].expand(4, 1, 64)
for dtype in (torch.float32, torch.bfloat16):
    rounded = places.to(dtype).long()
    turned = apply_rotary(head, *rotary(rounded, torch.float32))
    same = torch.equal(turned[1], turned[2])
    print(f"{dtype!s:15}", rounded.tolist(), "256 and 257 alike:", same)
    assert same == (dtype == torch.bfloat16)
assert torch.equal(torch.arange(257).bfloat16().long(), torch.arange(257))

# %% [markdown]
# ## Compare
#
# First with the finished package. Its parts are modules; these functions give them the shape of
# yours. `use_mine(..., ask=True)` asks for yours; until an exercise has passed, it gives the
# package's part.


# %%
def package_norm(x, weight, eps):
    norm = RMSNorm(len(weight), eps)
    norm.weight.copy_(weight)
    return norm(x)


def package_add_norm(x, residual, weight, eps):
    return package_norm(x + residual, weight, eps), x + residual


def package_rope(x, positions, theta):
    rotary = RotaryEmbedding(RopeParameters(theta=theta), x.shape[-1])
    return apply_rotary(x, *rotary(positions, x.dtype))


def package_split(qkv, num_heads, num_kv_heads, q_weight, k_weight, eps):
    heads = qkv.unflatten(-1, (-1, len(q_weight)))
    q, k, v = heads.tensor_split([num_heads, num_heads + num_kv_heads], dim=1)
    return package_norm(q, q_weight, eps), package_norm(k, k_weight, eps), v


def package_swiglu(x, gate_up_weight, down_weight):
    mlp = SwiGLU(x.shape[1], down_weight.shape[1], bias=False, tp=TensorParallel())
    mlp.gate_up_proj.weight.copy_(gate_up_weight)
    mlp.down_proj.weight.copy_(down_weight)
    return mlp(x)


PACKAGE = {
    "rms_norm": package_norm,
    "add_rms_norm": package_add_norm,
    "rope": package_rope,
    "split_qkv": package_split,
    "swiglu": package_swiglu,
}
mine = {name: use_mine(f"ch01.{name}", otherwise=part, ask=True) for name, part in PACKAGE.items()}
x, positions, weight = torch.randn(3, 48), torch.tensor([7, 3, 100]), torch.rand(48) + 0.5
inputs = {
    "rms_norm": (x, weight, 1e-6),
    "add_rms_norm": (x, x.flip(0), weight, 1e-6),
    "rope": (x.unflatten(1, (3, 16)), positions, 1e6),
    "split_qkv": (x, 2, 2, weight[:8], weight[8:16], 1e-6),
    "swiglu": (x, torch.randn(160, 48) / 7, torch.randn(48, 80) / 9),
}
for name, arguments in inputs.items():
    expected = PACKAGE[name](*arguments)
    torch.testing.assert_close(mine[name](*arguments), expected, rtol=1e-5, atol=1e-5)
print("all five agree with the package, to rounding")

# %% [markdown]
# Now with Hugging Face's transformers. Here is a whole layer out of your five functions. Only the
# mixing, `attention`, comes from elsewhere: PyTorch's own, until you write it in chapter 02.


# %%
@dataclass
class Weights:
    """Of a layer: four products and four norms, and the numbers that a config gives."""

    qkv: torch.Tensor
    out: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor
    norms: list[torch.Tensor]  # before attention, of queries, of keys, before the MLP
    heads: tuple[int, int]
    theta: float
    eps: float


def my_layer(x, positions, w, attention):
    before_attention, q_norm, k_norm, before_mlp = w.norms
    normed = mine["rms_norm"](x, before_attention, w.eps)
    q, k, v = mine["split_qkv"](F.linear(normed, w.qkv), *w.heads, q_norm, k_norm, w.eps)
    q, k = mine["rope"](q, positions, w.theta), mine["rope"](k, positions, w.theta)
    mixed = F.linear(attention(q, k, v).flatten(1), w.out)
    normed, residual = mine["add_rms_norm"](mixed, x, before_mlp, w.eps)
    return residual + mine["swiglu"](normed, w.gate_up, w.down)


# %%
torch.manual_seed(0)
config = Qwen3Config(
    vocab_size=50,
    hidden_size=48,
    intermediate_size=80,
    num_hidden_layers=1,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=16,
    rope_theta=1e6,
    initializer_range=0.2,
)
theirs = Qwen3Model(config).eval()
for name, parameter in theirs.named_parameters():
    if "norm" in name:
        parameter.add_(0.3 * torch.randn_like(parameter))  # they start as ones, which hide mistakes
layer = theirs.layers[0]
attn, mlp = layer.self_attn, layer.mlp
norms = (layer.input_layernorm, attn.q_norm, attn.k_norm, layer.post_attention_layernorm)
weights = Weights(
    qkv=torch.cat((attn.q_proj.weight, attn.k_proj.weight, attn.v_proj.weight)),
    out=attn.o_proj.weight,
    gate_up=torch.cat((mlp.gate_proj.weight, mlp.up_proj.weight)),
    down=mlp.down_proj.weight,
    norms=[norm.weight for norm in norms],
    heads=(6, 2),
    theta=1e6,
    eps=config.rms_norm_eps,
)


def causal_attention(q, k, v):
    q, k, v = (part.transpose(0, 1)[None] for part in (q, k, v))
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return mixed[0].transpose(0, 1)


ids, positions = torch.randint(50, (12,)), torch.arange(30, 42)
expected = theirs(input_ids=ids[None], position_ids=positions[None]).last_hidden_state[0]
x = my_layer(theirs.embed_tokens(ids), positions, weights, causal_attention)
got = mine["rms_norm"](x, theirs.norm.weight, config.rms_norm_eps)
assert (got - expected).abs().max() < 1e-4
print("12 tokens at the positions 30 to 41: my layer = Hugging Face's, to 4 decimals")

# %% [markdown]
# ## Plug in
#
# The same `my_layer` now goes into the engine. The package's attention reads and writes the KV
# cache; all else is yours. A step's positions are handed through to your `rope`.


# %%
class MyLayer(Qwen3DecoderLayer):
    def __init__(self, arch, *rest):
        super().__init__(arch, *rest)
        self.arch = arch

    def forward(self, x, positions, kv_cache, attn_metadata):
        attn, arch = self.self_attn, self.arch
        norms = (self.input_layernorm, attn.q_norm, attn.k_norm, self.post_attention_layernorm)
        weights = Weights(
            qkv=attn.qkv_proj.weight,
            out=attn.o_proj.weight,
            gate_up=self.mlp.gate_up_proj.weight,
            down=self.mlp.down_proj.weight,
            norms=[norm.weight for norm in norms],
            heads=(attn.num_heads, attn.num_kv_heads),
            theta=arch.rope.theta,
            eps=arch.rms_norm_eps,
        )

        def paged_attention(q, k, v):
            return attn.attn(q, k, v, kv_cache, attn_metadata)

        return my_layer(x, positions, weights, paged_attention)


class PositionsThemselves(torch.nn.Module):
    def forward(self, positions, dtype):
        return positions  # in place of cos and sin: `rope` works them out


class MyModel(Qwen3ForCausalLM):
    def __init__(self, arch, *rest):
        super().__init__(arch, *rest)
        layers = (MyLayer(arch, window, *rest) for window in arch.sliding_windows)
        self.model.layers = torch.nn.ModuleList(layers)
        self.model.rotary_emb = PositionsThemselves()


with engine(MyModel) as llm:
    outputs = llm.generate(beginnings, greedy, use_tqdm=False)
for beginning, output in zip(beginnings, outputs, strict=True):
    print(f"{beginning}|{output.output_text}")
assert [output.outputs[0].token_ids for output in outputs] == stories["positions"]
print("Milestone: a real engine generates with your layers, token for token as with its own.")

# %% [markdown]
# ## Recap
#
# - RMSNorm divides a row by its root mean square: float32 inside, eps under the root.
# - The residual is the sum before the norm; add and norm come as one call with two results.
# - RoPE turns pairs half a head apart; scores depend on distances alone.
# - Positions come with the tokens: a row's number says nothing.
# - Fused weights give one product; the cut has unequal parts.
#
# **Questions**
#
# <details><summary>Why does a norm over all query heads differ from one for each head?</summary>
#
# A loud head would make the others quiet: they would share one root mean square.
#
# </details>
# <details><summary>Why are values not turned?</summary>
#
# The angle is there for comparing queries with keys. Values are what is fetched.
#
# </details>
# <details><summary>Two GPUs each take half of a fused gate_up weight. What goes wrong?</summary>
#
# The first half is all gates. Each GPU must take half of the gates and half of the ups (chapter
# 13).
#
# </details>
# <details><summary>Which two mistakes of this chapter does a test in float32 hide?</summary>
#
# Squares in the dtype of `x`: that of 300 is infinite in float16 alone. Positions in the dtype of
# `x`: 256 and 257 are alike in bfloat16 alone.
#
# </details>
#
# **New words**: layer, RMSNorm, root mean square, eps, residual, RoPE, query, key, head, pair,
# theta, score, fused, MLP, unit, gate, up.
#
# **Stretch** (30 minutes): give `rope` a `factor` that slows all pairs down, as the type `linear`
# in `minivllm/layers/rope_frequencies.py` does, and compare.

# %% [markdown]
# ## The real thing
#
# - `vllm/model_executor/layers/layernorm.py`, `RMSNorm`: one CUDA kernel, `fused_add_rms_norm`,
#   that writes over its inputs. We return new tensors.
# - `vllm/model_executor/layers/rotary_embedding/`, `RotaryEmbedding`: a table of cosines for all
#   positions, made once; many ways to stretch a context.
# - `vllm/model_executor/layers/linear.py`, `QKVParallelLinear` and `MergedColumnParallelLinear`:
#   the fused products, cut over GPUs. `activation.py`, `SiluAndMul`: the gate in one kernel.
#
# Left out here: biases, quantised weights, experts.
#
# - Zhang and Sennrich, *Root Mean Square Layer Normalization*, arXiv:1910.07467.
# - Su et al., *RoFormer*, arXiv:2104.09864: RoPE.
# - Shazeer, *GLU Variants Improve Transformer*, arXiv:2002.05202: SwiGLU.
# - *Qwen3 Technical Report*, arXiv:2505.09388: the norm of each query and key head.
#
# Next: chapter 02, attention, the half that mixes tokens.
