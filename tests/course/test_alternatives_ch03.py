"""Right answers to chapter 03, written otherwise than the solution."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from minivllm.course.attempt import Attempt
from minivllm.course.examine import examine
from minivllm.course.grade import bank_of
from minivllm.course.registry import find, solution_of
from minivllm.course.render import render
from minivllm.layers.attention import PagedAttention
from minivllm.layers.embedding import VocabEmbedding
from minivllm.layers.linear import FusedLinear, RowParallelLinear
from minivllm.layers.norm import RMSNorm
from minivllm.layers.rotary import RotaryEmbedding, apply_rotary


class AttentionOfEinsums(nn.Module):
    """Uses the fused weight part by part, and PyTorch's own norms."""

    def __init__(self, arch, attention, tp):
        super().__init__()
        hidden, size = arch.hidden_size, arch.head_dim
        q, kv = arch.num_heads * size, arch.num_kv_heads * size
        parts = {"q_proj": q, "k_proj": kv, "v_proj": kv}
        self.qkv_proj = FusedLinear(hidden, parts, bias=arch.qkv_bias, tp=tp)
        self.o_proj = nn.Linear(q, hidden, bias=arch.o_bias)
        self.q_norm = nn.RMSNorm(size, eps=arch.rms_norm_eps)
        self.k_norm = nn.RMSNorm(size, eps=arch.rms_norm_eps)
        self.attn = PagedAttention(attention, size, None)

    def forward(self, x, cos_sin, kv_cache, attn_metadata):
        cos, sin = cos_sin
        q, k, v = (self.heads(x, rows) for rows in self.qkv_proj.part_rows.values())
        q, k = apply_rotary(self.q_norm(q), cos, sin), apply_rotary(self.k_norm(k), cos, sin)
        return self.o_proj(self.attn(q, k, v, kv_cache, attn_metadata).reshape(len(x), -1))

    def heads(self, x, rows):
        out = torch.einsum("th,oh->to", x, self.qkv_proj.weight[rows])
        if self.qkv_proj.bias is not None:
            out = out + self.qkv_proj.bias[rows]
        return out.unflatten(-1, (-1, self.q_norm.weight.shape[0]))


class AttentionOfHeads(nn.Module):
    """Cuts into heads first; turns q and k together, as both have the same angles."""

    def __init__(self, arch, attention, tp):
        super().__init__()
        self.counts = [arch.num_heads, arch.num_kv_heads, arch.num_kv_heads]
        sizes = [count * arch.head_dim for count in self.counts]
        parts = dict(zip(("q_proj", "k_proj", "v_proj"), sizes, strict=True))
        self.qkv_proj = FusedLinear(arch.hidden_size, parts, bias=arch.qkv_bias, tp=tp)
        self.o_proj = RowParallelLinear(sizes[0], arch.hidden_size, bias=arch.o_bias, tp=tp)
        self.q_norm, self.k_norm = (RMSNorm(arch.head_dim, arch.rms_norm_eps) for _ in range(2))
        self.attention = PagedAttention(attention, arch.head_dim, None)

    def forward(self, x, cos_sin, kv_cache, attn_metadata):
        heads = self.qkv_proj(x).unflatten(-1, (sum(self.counts), -1))
        q, k, v = heads.split(self.counts, dim=1)
        turned = apply_rotary(torch.cat((self.q_norm(q), self.k_norm(k)), dim=1), *cos_sin)
        q, k = turned.tensor_split([self.counts[0]], dim=1)
        out = self.attention(q, k, v, kv_cache, attn_metadata)
        return self.o_proj(torch.einsum("thd->thd", out).flatten(-2))


class AttentionHeadByHead(AttentionOfHeads):
    """Each head normed by itself; what is turned is written out."""

    def forward(self, x, cos_sin, kv_cache, attn_metadata):
        n, num_kv, _ = self.counts
        heads = self.qkv_proj(x).reshape(len(x), n + 2 * num_kv, -1)
        q, k, v = heads[:, :n], heads[:, n:-num_kv], heads[:, -num_kv:]
        q = torch.stack([self.q_norm(q[:, head]) for head in range(n)], dim=1)
        q, k = (h * cos_sin[0] + turned(h) * cos_sin[1] for h in (q, self.k_norm(k)))
        a = self.attention(q, k, v, kv_cache, attn_metadata)
        return self.o_proj(torch.cat(a.unbind(1), dim=-1))


def turned(heads):
    first, second = heads.chunk(2, dim=-1)
    return torch.cat((second, first), dim=-1)


class LayerInFourSteps(nn.Module):
    def __init__(self, arch, self_attn, mlp):
        super().__init__()
        size, eps = arch.hidden_size, arch.rms_norm_eps
        self.self_attn, self.mlp = self_attn, mlp
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(size, eps), RMSNorm(size, eps)

    def forward(self, x, cos_sin, kv_cache, attn_metadata):
        stream = x.clone()
        normed = self.input_layernorm(stream)
        stream += self.self_attn(normed, cos_sin, kv_cache, attn_metadata)
        stream += self.mlp(self.post_attention_layernorm(stream))
        return stream


class LayerByKeyword(LayerInFourSteps):
    def forward(self, x, cos_sin, kv_cache, attn_metadata):
        more = {"attn_metadata": attn_metadata, "kv_cache": kv_cache, "cos_sin": cos_sin}
        x = x + self.self_attn(x=self.input_layernorm(x), **more)
        return x + self.mlp(x=self.post_attention_layernorm(x))


class LayerOfTorchNorms(LayerInFourSteps):
    def __init__(self, arch, self_attn, mlp):
        super().__init__(arch, self_attn, mlp)
        self.input_layernorm, self.post_attention_layernorm = (
            nn.RMSNorm(arch.hidden_size, eps=arch.rms_norm_eps) for _ in range(2)
        )

    def forward(self, x, cos_sin, kv_cache, attn_metadata):
        h = torch.add(self.self_attn(self.input_layernorm(x), cos_sin, kv_cache, attn_metadata), x)
        return torch.add(self.mlp(self.post_attention_layernorm(h)), h)


class LayerWithResidualByName(nn.Module):
    def __init__(self, arch, self_attn, mlp):
        super().__init__()
        self.halves = [self_attn, mlp]
        self.self_attn, self.mlp, self.eps = self_attn, mlp, arch.rms_norm_eps
        for name in ("input_layernorm", "post_attention_layernorm"):
            self.add_module(name, RMSNorm(arch.hidden_size, self.eps))

    def forward(self, x, *rest):
        norms = (self.input_layernorm, self.post_attention_layernorm)
        for half, norm, more in zip(self.halves, norms, (rest, ()), strict=True):
            residual = x
            x = F.rms_norm(x, norm.weight.shape, norm.weight, self.eps)
            x = residual + half(x, *more)
        return x


class Body(nn.Module):
    """Two classes, as in the package: what is under `model.` is a module of its own."""

    def __init__(self, arch, layers, tp):
        super().__init__()
        self.embed_tokens = VocabEmbedding(arch.vocab_size, arch.hidden_size, tp)
        self.layers = nn.ModuleList(layers)
        self.norm = RMSNorm(arch.hidden_size, arch.rms_norm_eps)
        self.rotary = RotaryEmbedding(arch.rope, arch.head_dim)

    def forward(self, ids, positions, kv_caches, attn_metadata):
        x = self.embed_tokens(ids)
        for number, layer in enumerate(self.layers):
            x = layer(x, self.rotary(positions, x.dtype), kv_caches[number], attn_metadata)
        return self.norm(x)


class ModelWithBody(nn.Module):
    def __init__(self, arch, layers, tp):
        super().__init__()
        self.model = Body(arch, layers, tp)
        self.lm_head = None
        if arch.tie_word_embeddings is False:
            self.lm_head = VocabEmbedding(arch.vocab_size, arch.hidden_size, tp)

    def forward(self, input_ids, positions, kv_caches, attn_metadata):
        return self.model(input_ids, positions, kv_caches, attn_metadata)

    def compute_logits(self, hidden_states):
        return (self.lm_head or self.model.embed_tokens).logits(hidden_states)


class ModelOfTorchParts(nn.Module):
    def __init__(self, arch, layers, tp):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(arch.vocab_size, arch.hidden_size)
        self.model.layers = nn.ModuleList(layers)
        self.model.norm = nn.RMSNorm(arch.hidden_size, eps=arch.rms_norm_eps)
        self.rotary = RotaryEmbedding(arch.rope, arch.head_dim)
        self.lm_head = nn.Linear(arch.hidden_size, arch.vocab_size, bias=False)
        if arch.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight  # one parameter, two names

    def forward(self, input_ids, positions, kv_caches, attn_metadata):
        x = F.embedding(input_ids, self.model.embed_tokens.weight)
        cos_sin = self.rotary(positions, self.model.norm.weight.dtype)
        caches = iter(kv_caches)
        for layer in self.model.layers:
            x = layer(x, cos_sin, next(caches), attn_metadata)
        return self.model.norm(x)

    def compute_logits(self, hidden_states):
        return torch.einsum("td,vd->tv", hidden_states, self.lm_head.weight)


class ModelRowByRow(ModelWithBody):
    def compute_logits(self, hidden_states):
        head = self.model.embed_tokens if self.lm_head is None else self.lm_head
        return torch.stack([head.weight @ row for row in hidden_states])


def destinations_by_split(parameters, fused):
    found = {}
    for name, parameter in parameters.items():
        *path, layer, kind = name.split(".")
        parts = fused.get(layer, {layer: len(parameter)})
        rows = parameter.split(list(parts.values()))
        found |= {".".join([*path, p, kind]): r for p, r in zip(parts, rows, strict=True)}
    return found


def destinations_by_narrow(parameters, fused):
    found = dict(parameters)
    for name in parameters:
        for layer, parts in fused.items():
            for kind in ("weight", "bias"):
                if f".{name}".endswith(f".{layer}.{kind}"):
                    whole, edges = found.pop(name), [0, *accumulate(parts.values())]
                    for part, (a, b) in zip(parts, pairwise(edges), strict=True):
                        path = name.removesuffix(f"{layer}.{kind}")
                        found[f"{path}{part}.{kind}"] = whole.narrow(0, a, b - a)
    return found


def destinations_from_the_end(parameters, fused):
    found = {}
    for name, parameter in sorted(parameters.items(), reverse=True):
        path, kind = name.rsplit(".", 1)
        head, dot, layer = path.rpartition(".")
        stop = len(parameter)
        for part, size in reversed(fused.get(layer, {layer: stop}).items()):
            found[f"{head}{dot}{part}.{kind}"] = parameter[stop - size : stop, ...]
            stop -= size
    return found


def load_with_a_counter(targets, shards):
    counts = dict.fromkeys(targets, 0)
    for shard in shards:
        for name in shard:
            if name not in targets:
                if name == "lm_head.weight":
                    continue
                raise ValueError(f"unexpected {name}")
            if list(shard[name].shape) != list(targets[name].shape):
                raise ValueError(f"shape of {name}")
            counts[name] += 1
            targets[name][...] = shard[name]
    if set(counts.values()) != {1}:
        raise ValueError(str({name: n for name, n in counts.items() if n != 1}))


def load_all_checked_first(targets, shards):
    pairs = [(name, tensor) for shard in shards for name, tensor in shard.items()]
    pairs = [(n, t) for n, t in pairs if n != "lm_head.weight" or n in targets]
    if sorted(name for name, _ in pairs) != sorted(targets):
        raise ValueError(f"names: {sorted(targets)} are wanted, not {[n for n, _ in pairs]}")
    for name, tensor in pairs:
        if tensor.size() != targets[name].size():
            raise ValueError(name)
    for name, tensor in pairs:
        targets[name].data.copy_(tensor.to(targets[name].dtype))


def load_by_popping(targets, shards):
    left = dict(targets)
    for shard in shards:
        for name, tensor in shard.items():
            if name == "lm_head.weight" and name not in targets:
                continue
            target = left.pop(name, None)
            if target is None or target.shape != tensor.shape:
                raise ValueError(name)
            with torch.no_grad():
                target.zero_().add_(tensor)
    if left:
        raise ValueError(", ".join(left))


RIGHT = {
    "ch03.attention": (AttentionOfEinsums, AttentionOfHeads, AttentionHeadByHead),
    "ch03.decoder_layer": (
        LayerInFourSteps,
        LayerByKeyword,
        LayerOfTorchNorms,
        LayerWithResidualByName,
    ),
    "ch03.model": (ModelWithBody, ModelOfTorchParts, ModelRowByRow),
    "ch03.destinations": (destinations_by_split, destinations_by_narrow, destinations_from_the_end),
    "ch03.load_weights": (load_with_a_counter, load_all_checked_first, load_by_popping),
}
PAIRS = [(task_id, answer) for task_id, answers in RIGHT.items() for answer in answers]


def report_on(task_id, answer):
    task = find(task_id)
    source = solution_of(task)
    attempt = Attempt(
        task=task, source=source, stub=source, file="mine.py", path="mine.py", ready=answer
    )
    return examine(attempt, bank_of(task))


@pytest.mark.parametrize(("task_id", "answer"), PAIRS, ids=lambda x: getattr(x, "__name__", x))
def test_a_right_answer_written_otherwise_passes(task_id, answer):
    report = report_on(task_id, answer)
    assert report.passed, render(report)
