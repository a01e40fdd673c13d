# %% [markdown]
# # 03 · Qwen3
#
# **By the end** you will have shown that a model of your own gives the same logits as Hugging
# Face's on a trained checkpoint, and that it tells stories in the real engine.
#
# | | |
# |---|---|
# | time | 85 minutes, 30 more for the stretch at the end |
# | difficulty | medium |
# | you need | chapters 01 and 02; `nn.Module` |
# | you write | three modules, two functions and one answer in `exercises/ch03_qwen3.py` |
# | in vLLM | `vllm/model_executor/models/qwen3.py` |
#
# The parts exist: norms, rotations, attention, the MLP. Now they become a model, and its numbers
# come out of a file. The file is a **checkpoint**: named tensors, as training left them.
#
# ## Set-up
#
# The checkpoint ships with the package. Its `config.json` gives every size; `arch` holds them.
#
# One line below deserves a look. A head has 64 numbers, although `hidden_size / num_heads` is 32.
# Older models tie the two together. Qwen3 says `head_dim` outright.

# %%
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import torch
from safetensors.torch import load_file
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen3ForCausalLM as TheirQwen3
from transformers.utils import logging as transformers_logging

from minivllm import LLM, SamplingParams
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.attention.reference import ReferenceAttention
from minivllm.course.frames.ch03 import frames
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
from minivllm.hub import resolve_model
from minivllm.layers.mlp import SwiGLU
from minivllm.models import loader
from minivllm.models.hf_config import parse_config, read_config
from minivllm.models.qwen3 import Qwen3Attention, Qwen3DecoderLayer, Qwen3ForCausalLM
from minivllm.parallel import TensorParallel
from minivllm.parts import Parts

torch.set_grad_enabled(False)
transformers_logging.disable_progress_bar()
setup("ch03")

# %% tags=["nbval-check-output"]
folder = resolve_model("storyteller-7m")
arch = parse_config(read_config(folder))
for name in ("hidden_size", "num_layers", "num_heads", "num_kv_heads", "head_dim"):
    print(f"{name:14}{getattr(arch, name):5}")
for name in ("intermediate_size", "vocab_size", "rms_norm_eps", "tie_word_embeddings", "qkv_bias"):
    print(f"{name:20}{getattr(arch, name)}")
assert arch.head_dim == 64 != arch.hidden_size // arch.num_heads == 32

# %% [markdown]
# ## Picture: a wrong model writes, too
#
# First a way to run a model without the engine: one request, all its tokens in one step. The two
# long arguments say where keys and values are kept. Chapter 07 opens them; here they only pass
# through. Out come **logits**: a score for each token of the vocabulary.
#
# Then we take the finished model and five with one mistake each. None of them raises an error.
# Each goes on with the same beginning, always by the token with the highest score.


# %%
BACKEND, TP = ReferenceAttention(), TensorParallel()


def logits_of(model, ids):
    """The scores after each token of one request, computed in one step."""
    count = np.array([len(ids)], dtype=np.int32)
    shape = (1, len(ids), arch.num_kv_heads, arch.head_dim)  # of a cache with one large page
    kv_caches = [
        LayerKVCache(torch.zeros(shape), torch.zeros(shape)) for _ in range(arch.num_layers)
    ]
    attn_metadata = AttentionMetadata(
        query_start_loc=torch.tensor([0, len(ids)], dtype=torch.int32),
        seq_lens=torch.from_numpy(count),
        block_table=torch.zeros(1, 1, dtype=torch.int32),
        slot_mapping=torch.arange(len(ids)),
        query_lens_host=count,
        seq_lens_host=count,
    )
    hidden = model(torch.tensor(ids), torch.arange(len(ids)), kv_caches, attn_metadata)
    return model.compute_logits(hidden)


def finished_model():
    model = Qwen3ForCausalLM(arch, BACKEND, TP)
    loader.load_weights(model, folder, progress=False)
    return model


# %%
def random_weights(model):
    loader.init_dummy_weights(model, seed=0)


def no_last_norm(model):
    model.model.norm = torch.nn.Identity()


def gate_and_up_swapped(model):
    weight = model.model.layers[3].mlp.gate_up_proj.weight
    weight.copy_(weight.roll(arch.intermediate_size, dims=0))


def heads_not_normed(model):
    for layer in model.model.layers:
        layer.self_attn.q_norm = layer.self_attn.k_norm = torch.nn.Identity()


def k_and_v_swapped(model):
    for layer in model.model.layers:
        rows = layer.self_attn.qkv_proj.weight[arch.num_heads * arch.head_dim :]
        rows.copy_(rows.roll(len(rows) // 2, dims=0))


MISTAKES = {
    "no weights loaded": random_weights,
    "no last norm": no_last_norm,
    "gate and up swapped in layer 3": gate_and_up_swapped,
    "q and k not normed": heads_not_normed,
    "k and v swapped": k_and_v_swapped,
}

# %%
llm = LLM(device="cpu", max_model_len=256)
tokenizer = llm.get_tokenizer()
text = "Once upon a time, a small dog found a red kite. He ran to the field with Tom, and"
prompt = tokenizer(text).input_ids


def go_on(model, num_tokens=12):
    ids = list(prompt)
    for _ in range(num_tokens):
        ids.append(int(logits_of(model, ids)[-1].argmax()))
    return tokenizer.decode(ids[len(prompt) :])


models = {name: finished_model() for name in ("(none)", *MISTAKES)}
for name, spoil in MISTAKES.items():
    spoil(models[name])
texts = {name: go_on(model) for name, model in models.items()}
for name, written in texts.items():
    print(f"{name:32}{written!r}")
assert texts["no last norm"] == texts["(none)"]

# %%
right = logits_of(finished_model(), prompt)
wrong = {name: logits_of(models[name], prompt) for name in MISTAKES}
same = {name: int((w.argmax(-1) == right.argmax(-1)).sum()) for name, w in wrong.items()}
apart = {name: (w - right).abs().max().item() for name, w in wrong.items()}

figure, (left, axes) = plt.subplots(1, 2, figsize=(8, 2.6), sharey=True, layout="constrained")
left.barh(same.keys(), same.values(), color=OKABE_ITO[5], hatch="//", edgecolor="white")
left.bar_label(left.containers[0], padding=3)
left.set(xlim=(0, len(prompt) + 4), xlabel=f"same best token, of {len(prompt)} places")
axes.barh(apart.keys(), apart.values(), color=OKABE_ITO[6])
axes.bar_label(axes.containers[0], fmt="%.0f", padding=3)
axes.set(xlim=(0, 1.25 * max(apart.values())), xlabel="largest difference of a logit")
left.invert_yaxis()
show(
    figure,
    summary=f"Without its last norm the model still picks {same['no last norm']} of {len(prompt)} "
    f"tokens right, though a logit is off by {apart['no last norm']:.0f}.",
    alt="Two bar charts over five mistakes. Left, at how many places of the prompt the best token "
    "is still the right one: " + ", ".join(f"{n} {same[n]}" for n in same) + ". Right, the "
    "largest difference of a logit: " + ", ".join(f"{n} {apart[n]:.0f}" for n in apart) + ".",
)
assert same["no last norm"] > 0.9 * len(prompt)
assert min(apart.values()) > 1

# %% [markdown]
# One of the five writes just what the right model writes; only its scores tell it apart. So this
# chapter ends with every logit beside those of transformers.
#
# ## Where we are
#
# ```
# checkpoint ─────── names → rows ──────┐
#                            ┌──────────▼──────────┐
# text → tokens → scheduler →│ ██ the whole model ██│→ sampler → text
#                            └─────────────────────┘
# ```
#
# Chapters 01 and 02 checked each part alone, with random weights. Put together without a file, they
# babble: that is the second line above.

# %% [markdown]
# ## By hand
#
# Three products with the same input are one product with their weights on top of each other: a
# **fused** parameter. The checkpoint keeps the three apart.
#
# Let q have 4 rows, k and v 2 each. In the fused `qkv` of 8 rows, q fills 0 to 3, k 4 and 5, v 6
# and 7. Each start is the sum of the sizes before it. A slice of rows is a **view**: what you copy
# into it lands in the whole.

# %% tags=["nbval-check-output"]
qkv = torch.full((8, 2), torch.nan)
for rows, number in ((slice(0, 4), 1.0), (slice(4, 6), 2.0), (slice(6, 8), 3.0)):
    part = torch.full((rows.stop - rows.start, 2), number)  # q is full of ones, k of twos
    qkv[rows].copy_(part)
print([int(row) for row in qkv[:, 0]])
assert qkv[:, 0].tolist() == [1, 1, 1, 1, 2, 2, 3, 3]

# %% [markdown]
# At the bottom an id picks a row of the **embedding**, a table with one row a token. At the top,
# the **head** scores each id: the product of its row with the hidden state. If both use one
# table, the head is **tied**.
#
# Take the rows (3, 4), (1, 0), (0, 1) and no layers. Id 0 gives 3, 4; the norm makes it 0.8485,
# 1.1314. The scores: 3 · 0.8485 + 4 · 1.1314 = 7.07, then 0.85, then 1.13.

# %% tags=["nbval-check-output"]
table = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 1.0]])
state = table[0] / table[0].square().mean().sqrt()
print([round(number, 4) for number in state.tolist()])
print([round(score, 2) for score in (table @ state).tolist()])
assert torch.allclose(table @ state, torch.tensor([7.0711, 0.8485, 1.1314]), atol=1e-4)

# %% [markdown]
# ## Predict, then run
#
# Choose first; each choice opens. Then run the cell below it.

# %%
predict(
    "The fused qkv of this model has 768 rows, and hidden_size is 256. At which row does k begin?",
    right="b",
    a=("256", "That is a third. But q has 8 heads of 64, and k only 2."),
    b=("512", "q has 8 heads of 64 rows. That the sum is 3 times 256 is chance, and a trap."),
    c=("640", "That is where v begins: k has 2 heads of 64 rows before it."),
)

# %% tags=["nbval-check-output"]
rows = Qwen3Attention(arch, None, BACKEND, TP).qkv_proj.part_rows
print({name: (part.start, part.stop) for name, part in rows.items()})
assert rows["k_proj"].start == 512
assert rows["v_proj"].stop == 3 * arch.hidden_size

# %%
predict(
    "The file holds 90 tensors for 8 layers. How many parameters does the model have?",
    right="c",
    a=("90", "q, k and v share one parameter, and so do gate and up."),
    b=("91", "One more would be a head, but this model's head is its embedding."),
    c=("66", "Three tensors fewer a layer: 90 - 8 * 3."),
)

# %% tags=["nbval-check-output"]
checkpoint = load_file(folder / "model.safetensors")
num_parameters = len(list(finished_model().named_parameters()))
print(f"{len(checkpoint)} tensors, {num_parameters} parameters")
assert (len(checkpoint), num_parameters) == (90, 66)

# %%
predict(
    "A token's row runs through 8 layers. How does its length change on the way?",
    right="a",
    a=("it grows", "Layers add to it, and it adds up."),
    b=("it stays", "That would be so if each layer normed it. They norm a copy that they read."),
    c=("it shrinks", "A layer adds something. It does not divide."),
)

# %%
lengths = []


def note_length(module, inputs, output):
    before, after = inputs[0][-1], output[-1]
    lengths.extend([before.norm().item()] * (not lengths) + [after.norm().item()])


model = finished_model()
for layer in model.model.layers:
    layer.register_forward_hook(note_length)
logits_of(model, prompt)
print("after the embedding and each layer:", *(f"{length:.1f}" for length in lengths))
assert lengths == sorted(lengths)

# %% [markdown]
# ## Explore: where a tensor lands
#
# Five tensors of a layer land in two fused parameters, in whatever order the files give them. On
# the left `start` moves on by the size of each part. On the right it stays at 0, a classic mistake:
# nothing fails, rows are written over, others stay empty.
#
# The first cell draws a panel, the second one both. Step 5 is the end; walk back from there, then
# change the order.

# %%
q_size, kv_size = arch.num_heads * arch.head_dim, arch.num_kv_heads * arch.head_dim
FUSED = {
    "qkv_proj": {"q_proj": q_size, "k_proj": kv_size, "v_proj": kv_size},
    "gate_up_proj": {"gate_proj": arch.intermediate_size, "up_proj": arch.intermediate_size},
}
ORDERS = {
    "up, q, k, gate, v": ("up_proj", "q_proj", "k_proj", "gate_proj", "v_proj"),
    "v, gate, k, q, up": ("v_proj", "gate_proj", "k_proj", "q_proj", "up_proj"),
}
LOOKS = {
    "q_proj": (OKABE_ITO[2], ""),
    "k_proj": (OKABE_ITO[1], "//"),
    "v_proj": (OKABE_ITO[3], "\\\\"),
    "gate_proj": (OKABE_ITO[4], ""),
    "up_proj": (OKABE_ITO[7], "//"),
    None: ("white", "xx"),
}


def draw_rows(axes, frame):
    for line, pieces in enumerate(frame.pieces.values()):
        for piece in pieces:
            color, hatch = LOOKS[piece.tensor]
            width = 3 if piece.tensor == frame.tensor else 1  # of the line around what is new
            look = {"height": 0.6, "color": color, "hatch": hatch, "edgecolor": "black"}
            axes.barh(line, piece.stop - piece.start, left=piece.start, lw=width, **look)
            label = {"ha": "center", "va": "center", "backgroundcolor": "white", "fontsize": 10}
            name = (piece.tensor or "empty").removesuffix("_proj")
            axes.text((piece.start + piece.stop) / 2, line, name, **label)
    axes.set(yticks=range(2), yticklabels=frame.pieces, xlabel="row", xlim=(-10, 1034))


# %%
def frame_of(step, order, start_moves):
    return frames(FUSED, ORDERS[order], start_moves=start_moves)[step - 1]


def draw(step, order):
    figure, panels = plt.subplots(1, 2, figsize=(8, 2.6), sharey=True, layout="constrained")
    for axes, start_moves in zip(panels, (True, False), strict=True):
        frame = frame_of(step, order, start_moves)
        draw_rows(axes, frame)
        title = "start moves on" if start_moves else "start stays at 0"
        axes.set_title(f"{title}: {frame.num_unwritten} rows empty", fontsize=11)
    panels[0].invert_yaxis()
    return figure


def describe(step, order):
    texts = []
    for start_moves in (True, False):
        frame = frame_of(step, order, start_moves)
        held = ", ".join(
            f"{piece.tensor or 'empty'} in rows {piece.start} to {piece.stop - 1} of {parameter}"
            for parameter, pieces in frame.pieces.items()
            for piece in pieces
        )
        texts.append(f"{'start moves on' if start_moves else 'start stays at 0'}: {held}.")
    return f"Two panels of rows after step {step}, {frame.tensor}. " + " ".join(texts)


explore(draw, alt=describe, step=[5, 4, 3, 2, 1], order=list(ORDERS))
assert frame_of(5, "up, q, k, gate, v", True).num_unwritten == 0
assert frame_of(5, "up, q, k, gate, v", False).num_unwritten == 256 + 512

# %% [markdown]
# ## Exercise: `Attention`
#
# The half that mixes tokens. From a normed row come q, k and v; each head of q and of k is normed
# by itself and turned; `o_proj` brings the result back to `hidden_size`.
#
# | step | shape |
# |---|---|
# | `qkv_proj(x)` | `[num_tokens, q_size + 2 * kv_size]` |
# | q; k and v, as heads | `[num_tokens, num_heads, head_dim]`; `num_kv_heads` |
# | `self.attn(...)` | as q |
# | returns | `[num_tokens, hidden_size]` |
#
# These layers are imported; each is made once, in `__init__`:
#
# | layer | made by |
# |---|---|
# | `qkv_proj` | `FusedLinear(hidden_size, {"q_proj": rows, ...}, bias=..., tp=tp)`: q, k, v |
# | `o_proj` | `RowParallelLinear(size_in, size_out, bias=..., tp=tp)` |
# | `q_norm`, `k_norm` | `RMSNorm(size, eps)`, along the last axis |
# | `attn` | `PagedAttention(attention, head_dim, None)` |
#
# Their names are those of the checkpoint; sizes, eps and biases come from `arch`. Rows keep their
# dtype, in bfloat16, too. Open `exercises/ch03_qwen3.py`, write, run the next cell again.
# **Red is expected** at first.
#
# <details><summary>Help: I see "shape '[1, -1, 4]' is invalid for input of size 6"</summary>You
# split into thirds. q has more rows than k and v.</details>

# %% tags=["check"]
check("ch03.attention")

# %%
hints("ch03.attention")

# %% [markdown]
# ## Exercise: `DecoderLayer`
#
# The row of the last prediction is the **residual stream**. Each half of a layer reads a normed
# copy of it and adds its result to it. Norm first, then the half: **pre-norm**.
#
# The layer is handed its attention and its MLP. It makes the two `RMSNorm(hidden_size, eps)`, and
# it decides who reads what.
#
# | what | shape |
# |---|---|
# | `x`, the stream | `[num_tokens, hidden_size]`, not changed |
# | `self_attn(normed, cos_sin, kv_cache, attn_metadata)` | as `x` |
# | `mlp(normed)` | as `x` |
# | returns: the stream after the layer | as `x` |
#
# <details><summary>Help: I see "... is in no checkpoint"</summary>That name is yours. The second
# norm is `post_attention_layernorm` in the file, although it stands before the MLP.</details>

# %% tags=["check"]
check("ch03.decoder_layer")

# %%
hints("ch03.decoder_layer")

# %% [markdown]
# ## Exercise: `Qwen3`
#
# Embedding, layers, a last norm, a head. Cosines and sines are the same in all layers: work them
# out once a step. The next step has other positions, even if it has as many rows. `compute_logits`
# is a method of its own, because a step needs scores for few of its rows.
#
# | made by | used as |
# |---|---|
# | `VocabEmbedding(vocab_size, hidden_size, tp)` | `table(input_ids)`, `table.logits(rows)` |
# | `RotaryEmbedding(arch.rope, head_dim)` | `rotary(positions, dtype)` gives `cos_sin` |
# | `RMSNorm(size, eps)`, `nn.ModuleList(layers)` | each layer is called with its own cache |
#
# | what | shape |
# |---|---|
# | `input_ids`, `positions` | `[num_tokens]` |
# | `kv_caches` | one for each layer |
# | `forward` returns: rows after the last norm | `[num_tokens, hidden_size]` |
# | `compute_logits` returns | `[num_rows, vocab_size]` |
#
# <details><summary>Help: I see "lm_head.weight is in no checkpoint"</summary>The model is tied
# (`arch.tie_word_embeddings`): don't make a head.</details>

# %% tags=["check"]
check("ch03.model")

# %%
hints("ch03.model")

# %% [markdown]
# ## Exercise: `destinations`
#
# Turn the model inside out: for each name that a checkpoint uses, the memory that its tensor fills.
#
# | argument | what |
# |---|---|
# | `parameters` | name → tensor, such as `model.layers.0.self_attn.qkv_proj.weight` |
# | `fused` | as `FUSED` above: fused layer → parts → rows |
# | returns | name in the checkpoint → a view, or the parameter itself |
#
# The last word of a name says weight or bias; both are split alike. The word before it is the
# layer; a word that only holds `qkv_proj`, or stands further left, is not. Read the two mappings,
# and write into neither.
#
# <details><summary>Help: I see "NaN: ... memory from torch.empty that was not written"</summary>
# What you give back is a copy. `tensor[a:b]` is a view; a list of rows or `clone` is not.</details>

# %% tags=["check"]
check("ch03.destinations")

# %%
hints("ch03.destinations")

# %% [markdown]
# ## Exercise: `load_weights`
#
# Large checkpoints come in several files, called **shards**, in any order. Copy every tensor into
# its target. When you return, each target was set exactly once, or you raised a `ValueError` whose
# message names the tensor:
#
# | what you find | what you do |
# |---|---|
# | a tensor without a target, or seen before | raise |
# | another shape than its target | raise |
# | a target left over after the last shard | raise |
# | `lm_head.weight`, and no target of that name | skip: the model is tied |
# | another dtype | convert; the target keeps its own |
#
# <details><summary>Help: I see "KeyError"</summary>A name of the shard is no target. Ask before you
# look it up.</details>

# %% tags=["check"]
check("ch03.load_weights")

# %%
hints("ch03.load_weights")

# %% [markdown]
# ## Detective: every score is 0
#
# A loader for a tied model. Nothing is raised, and the embedding is right to the last bit. But all
# scores are equal, so the best token is always number 0. Which line is wrong, and why? Write
# `return line, "letter"` in `detective()`.

# %%
table = checkpoint["model.embed_tokens.weight"].float()
embedding, head = planted("ch03.detective")({"model.embed_tokens.weight": table}, *table.shape)
scores = table[5] @ head.T
print("embedding right:", torch.equal(embedding, table), "  scores:", scores.unique().tolist())
assert scores.argmax() == 0
listing("ch03.detective")

# %% tags=["check"]
check("ch03.detective")

# %% [markdown]
# ## Measure
#
# What is in a model of this shape, and what does it cost to run n tokens? On paper, for the table
# below to confirm:
#
# - numbers: the embedding, the last norm, and in each layer four matrices and four norms;
# - bytes in the file: two a number, for they are stored in bfloat16;
# - operations: two for each number of a matrix and each token, and `4 * n * n * q_size` in each
#   layer, for the scores and the mixing.
#
# From here on your parts are used where they have passed. Elsewhere the package's stand in, behind
# the constructors of the exercises.


# %%
def package_attention(arch, attention, tp):
    return Qwen3Attention(arch, None, attention, tp)


def package_layer(arch, self_attn, mlp):
    layer = Qwen3DecoderLayer(arch, None, BACKEND, TP)
    layer.self_attn, layer.mlp = self_attn, mlp
    return layer


def package_qwen3(arch, layers, tp):
    model = Qwen3ForCausalLM(arch, BACKEND, tp)
    model.model.layers = torch.nn.ModuleList(layers)
    return model


Attention = use_mine("ch03.attention", otherwise=package_attention, ask=True)
DecoderLayer = use_mine("ch03.decoder_layer", otherwise=package_layer, ask=True)
Qwen3 = use_mine("ch03.model", otherwise=package_qwen3, ask=True)
destinations = use_mine("ch03.destinations", otherwise=None, ask=True)
load_weights = use_mine("ch03.load_weights", otherwise=None, ask=True)
is_all_mine = None not in (destinations, load_weights) and not (
    {Attention, DecoderLayer, Qwen3} & {package_attention, package_layer, package_qwen3}
)
whose = "your model" if is_all_mine else "a model that is not all yours yet"


# %%
def my_model(arch, attention, tp):
    layers = []
    for _ in range(arch.num_layers):
        mlp = SwiGLU(arch.hidden_size, arch.intermediate_size, bias=arch.mlp_bias, tp=tp)
        layers.append(DecoderLayer(arch, Attention(arch, attention, tp), mlp))
    return Qwen3(arch, layers, tp)


def shards():
    """The checkpoint in three parts, as a large one would come, from the end to the beginning."""
    names = sorted(checkpoint, reverse=True)
    for first in range(3):
        yield {name: checkpoint[name] for name in names[first::3]}


def load(model):
    if destinations is None or load_weights is None:
        loader.load_weights(model, folder, progress=False)
    else:
        load_weights(destinations(dict(model.named_parameters()), FUSED), shards())
    return model


mine, package = load(my_model(arch, BACKEND, TP)), finished_model()
theirs = TheirQwen3.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()

# %%
h, n = arch.hidden_size, len(prompt)
per_layer = (q_size + 2 * kv_size) * h + h * q_size + 3 * arch.intermediate_size * h
matrices = arch.vocab_size * h + arch.num_layers * per_layer
numbers = matrices + arch.num_layers * (2 * h + 2 * arch.head_dim) + h
operations = 2 * n * matrices + arch.num_layers * 4 * n * n * q_size
print(f"{numbers:,} numbers; {operations:,} operations for {n} tokens")


# %%
def counted(function):
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


def num_matrices(tensors):
    return sum(tensor.dim() == 2 for tensor in tensors)


run_mine = counted(lambda: logits_of(mine, prompt))
run_theirs = counted(lambda: theirs(torch.tensor([prompt]), use_cache=False))
measured = {
    "numbers": (numbers, sum(p.numel() for p in mine.parameters())),
    "bytes in the file": (2 * numbers, sum(t.nbytes for t in checkpoint.values())),
    "matrices in the file": (7 * arch.num_layers + 1, num_matrices(checkpoint.values())),
    "matrices, fused": (4 * arch.num_layers + 1, num_matrices(package.parameters())),
    "operations, fused": (operations, run_mine),
    "operations, apart": (operations, run_theirs),
}
print(f"{'':22}{'predicted':>13}{'measured':>13}{'ratio':>7}")
for name, (predicted, found) in measured.items():
    print(f"{name:22}{predicted:13,}{found:13,}{found / predicted:7.2f}")
    assert abs(found / predicted - 1) < 1e-4
assert run_theirs - operations == n * arch.head_dim

# %% [markdown]
# Fusing makes 33 products out of 57, with not one operation less. Transformers, which keeps them
# apart, needs `n * head_dim` more, in the last line: it works out its angles by a product, too.
#
# ## Break it: one number from habit
#
# One knob: `theta`, which sets how fast heads are turned. This checkpoint says 10,000. You write
# 1,000,000, a value of other models. All names and shapes fit: the loader raises nothing.
#
# The first token stands at position 0, where nothing is turned. It hides the mistake.

# %%
habit = replace(arch, rope=replace(arch.rope, theta=1e6))
model = Qwen3ForCausalLM(habit, BACKEND, TP)
loader.load_weights(model, folder, progress=False)
off = (logits_of(model, prompt) - right).abs().amax(-1)
print("theta in the config:", arch.rope.theta)
print(f"first token: off by {off[0]:.4f}; last token: off by {off[-1]:.2f}")
print(repr(go_on(model)))
assert off[0] < 1e-3
assert off[-1] > 1

# %% [markdown]
# ## Compare
#
# First with the package: the same weights by its own loader, the same names, the same rows.
#
# Then with transformers, which shares no line with us: every logit of every place, on the trained
# weights. Sums in another order round differently, so a little is allowed: 0.001.

# %%
filled, wanted = loader.destinations(mine), loader.destinations(package)
assert filled.keys() == wanted.keys() == checkpoint.keys()
assert all(torch.equal(filled[name], wanted[name]) for name in wanted)
torch.testing.assert_close(logits_of(mine, prompt), right, rtol=1e-5, atol=1e-4)
print(f"{len(filled)} tensors, in the same places as the package's, bit for bit")

# %%
story = llm.generate(text, SamplingParams(temperature=0, max_tokens=120), use_tqdm=False)[0]
ids = [*prompt, *story.outputs[0].token_ids]
expected = theirs(torch.tensor([ids]), use_cache=False).logits[0]
got = logits_of(mine, ids)
difference = (got - expected).abs().max().item()
print(f"{got.numel():,} logits, spread {expected.std():.1f}; all within 0.001: {difference < 1e-3}")
assert difference < 1e-3
assert torch.equal(got.argmax(-1), expected.argmax(-1))
print(f"Milestone: {whose} = Hugging Face's, logit for logit.")

# %% [markdown]
# ## Plug in
#
# `Parts(model=...)` takes what you built. The scheduler, the paged cache and the sampler stay the
# package's, and so does its loader: it finds your parameters by their names. Three requests share
# the steps.

# %%
prompts = [text, "Once upon a time", "The little bear was sad because"]
greedy = SamplingParams(temperature=0, max_tokens=40)
answers = {}
for name, model in (("package", None), ("mine", my_model)):
    with LLM(device="cpu", max_model_len=256, parts=Parts(model=model)) as engine:
        outputs = engine.generate(prompts, greedy, use_tqdm=False)
        answers[name] = [output.outputs[0].token_ids for output in outputs]
assert answers["mine"] == answers["package"]

with LLM(device="cpu", max_model_len=256, parts=Parts(model=my_model), seed=0) as engine:
    request = [{"role": "user", "content": "Tell me a story about a dog and a red kite."}]
    answer = engine.chat(request, SamplingParams(temperature=0, max_tokens=120), use_tqdm=False)
print(answer[0].output_text)
assert len(answer[0].outputs[0].token_ids) > 20
print(f"\nMilestone: {whose} tells a story in the real engine.")
llm.shutdown()

# %% [markdown]
# ## Recap
#
# - The residual stream is only added to; each half of a layer reads a normed copy.
# - Each head of q and k has its own mean square; `head_dim` is a number of the config.
# - A fused parameter holds unequal parts; each start is the sum of the sizes before it.
# - Loading is two sets of names: every target once, nothing left over, shapes compared.
# - Text that reads well proves nothing. Compare logits.
#
# **Questions**
#
# <details><summary>Why does the model without its last norm pick nearly the same tokens?</summary>
# Dividing a row by one number changes no order among its scores. Only the norm's weight, place by
# place, does.</details>
# <details><summary>Why does a loader compare shapes, when copy_ does?</summary>copy_ repeats a
# single row to fill many, and does not complain.</details>
# <details><summary>k and v have the same shape. Which check finds them swapped?</summary>None
# of names and shapes. A comparison of logits does.</details>
# <details><summary>Why is there no head in a tied checkpoint?</summary>It is the embedding, and the
# model reads one table in both directions.</details>
#
# **New words**: checkpoint, shard, logit, residual stream, pre-norm, fused parameter, view,
# embedding, head, tied.
#
# **Stretch** (30 minutes): write a `Qwen2` from your classes: biases for q, k and v, and no q/k
# norm. Compare with `minivllm/models/qwen2.py`.

# %% [markdown]
# ## The real thing
#
# - `vllm/model_executor/models/qwen3.py`, `Qwen3ForCausalLM`: the same modules under the same
#   names. Its norms take the residual with them, as a fused add and norm (chapter 01).
# - `vllm/model_executor/models/qwen2.py`, `Qwen2Model.load_weights`: `stacked_params_mapping` says
#   which part goes into which fused parameter; each parameter has a `weight_loader` that knows its
#   offset and its rank's share.
# - `vllm/model_executor/model_loader/`: reads shards, checks what was not set.
#
# It adds quantised weights, parts of a model on several GPUs, experts, LoRA. We have none of these.
#
# - *Qwen3 Technical Report*, arXiv:2505.09388: the model, with its q/k norm.
# - Xiong et al., *On Layer Normalization in the Transformer Architecture*, arXiv:2002.04745: why
#   the norm comes first.
# - Press and Wolf, *Using the Output Embedding to Improve Language Models*, arXiv:1608.05859: the
#   tied head.
#
# Next: chapter 04, generation. `go_on` above computes every token again for each new one.
