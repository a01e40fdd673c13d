"""Right answers to chapter 01, written otherwise than the solution, and mistakes likewise."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch.nn import functional as F

from minivllm.course.attempt import Attempt
from minivllm.course.examine import examine
from minivllm.course.grade import bank_of
from minivllm.course.registry import find, solution_of
from minivllm.course.render import render


def norm_by_library_mean(x, weight, eps):
    variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
    return (x.to(torch.float32) / torch.sqrt(variance + eps) * weight.float()).type_as(x)


def norm_by_vector_norm(x, weight, eps):
    wide = x.double()
    rms = (torch.linalg.vector_norm(wide, dim=-1, keepdim=True) ** 2 / x.shape[-1] + eps) ** 0.5
    return (wide / rms).to(x.dtype) * weight


def norm_by_einsum(x, weight, eps):
    wide = x.float()
    mean = torch.einsum("...d,...d->...", wide, wide) / wide.size(-1)
    return torch.einsum("...d,...,d->...d", wide, (mean + eps) ** -0.5, weight.float()).to(x.dtype)


def norm_row_by_row(x, weight, eps):
    out = torch.empty_like(x)
    for place in product(*map(range, x.shape[:-1])):
        row = x[place].float()
        out[place] = (weight * row / ((row @ row) / len(row) + eps).sqrt()).to(x.dtype)
    return out


def norm_flattened_by_reshape(x, weight, eps):
    flat = x.reshape(-1, x.shape[-1]).float()
    scale = (flat.square().mean(-1, keepdim=True) + eps).rsqrt()
    return (flat * scale).to(x.dtype).reshape(x.shape) * weight


def add_norm_by_library(x, residual, weight, eps):
    total = residual + x
    return F.rms_norm(total, (x.shape[-1],), weight, eps), total


def add_norm_like_vllm(x, residual, weight, eps):
    """vLLM adds in float32 and norms what was not rounded yet."""
    total = x.float() + residual.float()
    normed = total * torch.rsqrt(total.pow(2).mean(dim=-1, keepdim=True) + eps)
    return normed.to(x.dtype) * weight, total.to(x.dtype)


def add_norm_by_torch_add(x, residual, weight, eps):
    new = torch.add(x, residual)
    return [norm_by_einsum(new, weight, eps), new][0], new


def rope_like_transformers(x, positions, theta):
    inv_freq = 1.0 / (theta ** (torch.arange(0, x.shape[-1], 2, dtype=torch.float) / x.shape[-1]))
    freqs = positions[:, None].float() @ inv_freq[None, :]
    emb = torch.cat((freqs, freqs), dim=-1)
    cos, sin = emb.cos()[:, None].to(x.dtype), emb.sin()[:, None].to(x.dtype)
    x1, x2 = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-x2, x1), dim=-1) * sin


def rope_by_complex_numbers(x, positions, theta):
    a, b = x.double().chunk(2, dim=-1)
    speeds = theta ** -(torch.arange(a.shape[-1], dtype=torch.float64) / a.shape[-1])
    angles = torch.outer(positions.double(), speeds)
    turned = torch.complex(a, b) * torch.polar(torch.ones_like(angles), angles)[:, None]
    return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)


def rope_by_a_table(x, positions, theta):
    half = x.shape[-1] // 2
    speeds = torch.pow(theta, -2.0 * torch.arange(half) / x.shape[-1])
    table = torch.outer(torch.arange(int(positions.max()) + 1).float(), speeds)
    cos, sin = (f(table)[positions].unsqueeze(1).to(x.dtype) for f in (torch.cos, torch.sin))
    return torch.addcmul(
        x * torch.cat((cos, cos), -1), x.roll(half, -1), torch.cat((-sin, sin), -1)
    )


def rope_like_vllm(x, positions, theta):
    """The table of cosines and sines as long as the context needs, and the dtype of x."""
    dim = x.shape[-1]
    inv_freq = 1.0 / (theta ** (torch.arange(0, dim, 2, dtype=torch.float) / dim))
    freqs = torch.einsum("i,j->ij", torch.arange(int(positions.max()) + 9).float(), inv_freq)
    cos, sin = torch.cat((freqs.cos(), freqs.sin()), -1)[positions].chunk(2, dim=-1)
    cos, sin = cos.unsqueeze(-2).to(x.dtype), sin.unsqueeze(-2).to(x.dtype)
    x1, x2 = torch.chunk(x, 2, dim=-1)
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


def rope_by_loops(x, positions, theta):
    num_tokens, _, dim = x.shape
    out = torch.empty_like(x)
    for t in range(num_tokens):
        for i in range(dim // 2):
            angle = torch.tensor(float(positions[t]) * theta ** (-2 * i / dim))
            a, b = x[t, :, i].float(), x[t, :, i + dim // 2].float()
            out[t, :, i] = a * angle.cos() - b * angle.sin()
            out[t, :, i + dim // 2] = a * angle.sin() + b * angle.cos()
    return out


def split_by_slices(qkv, num_heads, num_kv_heads, q_weight, k_weight, eps):
    dim = qkv.shape[1] // (num_heads + 2 * num_kv_heads)
    q_size, kv_size = num_heads * dim, num_kv_heads * dim
    q = qkv[:, :q_size].reshape(-1, num_heads, dim)
    k = qkv[:, q_size : q_size + kv_size].reshape(-1, num_kv_heads, dim)
    v = qkv[:, -kv_size:].reshape(-1, num_kv_heads, dim)
    return F.rms_norm(q, (dim,), q_weight, eps), F.rms_norm(k, (dim,), k_weight, eps), v


def split_by_torch_split(qkv, num_heads, num_kv_heads, q_weight, k_weight, eps):
    dim = q_weight.numel()
    sizes = [n * dim for n in (num_heads, num_kv_heads, num_kv_heads)]
    q, k, v = (part.unflatten(1, (-1, dim)) for part in torch.split(qkv, sizes, dim=-1))
    return norm_by_library_mean(q, q_weight, eps), norm_by_einsum(k, k_weight, eps), v.contiguous()


def split_into_a_list(qkv, num_heads, num_kv_heads, q_weight, k_weight, eps):
    heads = list(qkv.view(len(qkv), -1, len(k_weight)).unbind(1))
    q = torch.stack([norm_by_einsum(h, q_weight, eps) for h in heads[:num_heads]], dim=1)
    k = [norm_by_einsum(h, k_weight, eps) for h in heads[num_heads : num_heads + num_kv_heads]]
    return q, torch.stack(k, dim=1), torch.stack(heads[num_heads + num_kv_heads :], dim=1)


def mlp_by_sigmoid(x, gate_up_weight, down_weight):
    half = gate_up_weight.shape[0] // 2
    gate_up = x @ gate_up_weight.t()
    return gate_up[:, :half].sigmoid().mul(gate_up[:, :half]).mul(gate_up[:, half:]) @ down_weight.T


def mlp_by_einsum(x, gate_up_weight, down_weight):
    gate, up = torch.einsum("th,guh->gtu", x, gate_up_weight.unflatten(0, (2, -1)))
    return torch.einsum("tu,hu->th", F.silu(gate) * up, down_weight)


def mlp_by_exponential(x, gate_up_weight, down_weight):
    gate, up = torch.tensor_split(torch.matmul(x, gate_up_weight.mT).float(), 2, dim=-1)
    return F.linear((gate / (1 + torch.exp(-gate)) * up).to(x.dtype), down_weight)


def mlp_by_both_exponentials(x, gate_up_weight, down_weight):
    """The exponential of what is negative: it never overflows."""
    gate, up = F.linear(x, gate_up_weight).chunk(2, dim=-1)
    e = torch.exp(-gate.abs())
    opened = torch.where(gate >= 0, 1 / (1 + e), e / (1 + e))
    return F.linear(gate * opened * up, down_weight)


def mlp_in_two_products(x, gate_up_weight, down_weight):
    gate_weight, up_weight = gate_up_weight.chunk(2)
    return F.linear(torch.nn.SiLU()(F.linear(x, gate_weight)) * F.linear(x, up_weight), down_weight)


ALTERNATIVES = {
    "ch01.rms_norm": (
        norm_by_library_mean,
        norm_by_vector_norm,
        norm_by_einsum,
        norm_flattened_by_reshape,
        norm_row_by_row,
    ),
    "ch01.add_rms_norm": (add_norm_by_library, add_norm_like_vllm, add_norm_by_torch_add),
    "ch01.rope": (
        rope_like_transformers,
        rope_by_complex_numbers,
        rope_by_a_table,
        rope_like_vllm,
        rope_by_loops,
    ),
    "ch01.split_qkv": (split_by_slices, split_by_torch_split, split_into_a_list),
    "ch01.swiglu": (
        mlp_by_sigmoid,
        mlp_by_einsum,
        mlp_by_exponential,
        mlp_by_both_exponentials,
        mlp_in_two_products,
    ),
}
PAIRS = [(task_id, f) for task_id, functions in ALTERNATIVES.items() for f in functions]


def report_on(task_id, function):
    task = find(task_id)
    source = solution_of(task)
    attempt = Attempt(
        task=task, source=source, stub=source, file="mine.py", path="mine.py", ready=function
    )
    return examine(attempt, bank_of(task))


@pytest.mark.parametrize(("task_id", "function"), PAIRS, ids=lambda x: getattr(x, "__name__", x))
def test_a_right_answer_written_otherwise_passes(task_id, function):
    report = report_on(task_id, function)
    assert report.passed, render(report)


# Mistakes written otherwise than in the bank, or in no bank: each must be refused all the same.


def norm_of_the_first_half(x, weight, eps):
    half = x[..., : x.shape[-1] // 2].float()
    return (x.float() * torch.rsqrt(half.square().mean(-1, keepdim=True) + eps)).to(
        x.dtype
    ) * weight


def norm_of_the_first_token(x, weight, eps):
    wide = x.float()
    root = torch.rsqrt(wide[:1].square().mean(-1, keepdim=True) + eps)
    return (wide * root).to(x.dtype) * weight


def norm_with_clamped_mean(x, weight, eps):
    mean = x.float().square().mean(-1, keepdim=True).clamp(min=eps)
    return (x.float() * mean.rsqrt()).to(x.dtype) * weight


def norm_in_bfloat16(x, weight, eps):
    return norm_by_einsum(x.bfloat16(), weight.bfloat16(), eps).to(x.dtype)


def norm_bessel(x, weight, eps):
    mean = x.float().square().sum(-1, keepdim=True) / (x.shape[-1] - 1)
    return (x.float() * torch.rsqrt(mean + eps)).to(x.dtype) * weight


def norm_that_wants_two_axes(x, weight, eps):
    assert x.dim() > 1
    return norm_by_einsum(x, weight, eps)


def norm_of_viewed_rows(x, weight, eps):
    return norm_by_einsum(x.view(-1, x.shape[-1]), weight, eps).view(x.shape)


def add_norm_without_bfloat16(x, residual, weight, eps):
    assert x.dtype != torch.bfloat16
    return add_norm_by_library(x, residual, weight, eps)


def add_norm_averaged(x, residual, weight, eps):
    total = (x + residual) / 2
    return norm_by_einsum(total, weight, eps), total


def add_norm_scaled_residual(x, residual, weight, eps):
    total = x + residual
    return norm_by_einsum(total, weight, eps), total * weight


def rope_with_reversed_speeds(x, positions, theta):
    half = x.shape[-1] // 2
    angles = positions[:, None, None] * theta ** (-torch.arange(half).flip(0) / half)
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)


def rope_of_half_a_head(x, positions, theta):
    half = x.shape[-1] // 2
    return torch.cat((rope_like_transformers(x[..., :half], positions, theta), x[..., half:]), -1)


def rope_modulo_64(x, positions, theta):
    return rope_like_transformers(x, positions % 64, theta)


def rope_log_base_two(x, positions, theta):
    half = x.shape[-1] // 2
    angles = positions[:, None, None] * torch.exp2(-torch.arange(half) / half * theta**0.25)
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)


def rope_of_half_positions(x, positions, theta):
    return rope_like_transformers(x, positions.half().float(), theta)


def rope_of_int16_positions(x, positions, theta):
    return rope_like_transformers(x, positions.to(torch.int16), theta)


def rope_by_a_table_of_4096(x, positions, theta):
    return rope_like_transformers(x, torch.arange(4096)[positions], theta)


def rope_flipped_positions(x, positions, theta):
    return rope_like_transformers(x, positions.flip(0), theta)


def split_reversed_heads(qkv, num_heads, num_kv_heads, q_weight, k_weight, eps):
    q, k, v = split_by_slices(qkv, num_heads, num_kv_heads, q_weight, k_weight, eps)
    return q.flip(1), k, v


def split_first_value_head_only(qkv, num_heads, num_kv_heads, q_weight, k_weight, eps):
    q, k, v = split_by_slices(qkv, num_heads, num_kv_heads, q_weight, k_weight, eps)
    return q, k, v[:, :1].expand_as(v)


def split_norm_over_heads_axis(qkv, num_heads, num_kv_heads, q_weight, k_weight, eps):
    heads = qkv.unflatten(-1, (-1, len(q_weight)))
    q, k, v = heads.split([num_heads, num_kv_heads, num_kv_heads], dim=1)
    q, k = (h * (h.square().mean(1, keepdim=True) + eps).rsqrt() for h in (q, k))
    return q * q_weight, k * k_weight, v


def split_without_bfloat16(qkv, num_heads, num_kv_heads, q_weight, k_weight, eps):
    assert qkv.dtype != torch.bfloat16
    return split_by_slices(qkv, num_heads, num_kv_heads, q_weight, k_weight, eps)


def mlp_by_a_ratio_of_exponentials(x, gate_up_weight, down_weight):
    gate, up = F.linear(x, gate_up_weight).float().chunk(2, dim=-1)
    e = torch.exp(gate)
    return F.linear((gate * e / (1 + e) * up).to(x.dtype), down_weight)


def mlp_halves_exchanged(x, gate_up_weight, down_weight):
    gate, up = F.linear(x, gate_up_weight.flip(0)).chunk(2, dim=-1)
    return F.linear(F.silu(gate) * up, down_weight)


def mlp_with_hard_swish(x, gate_up_weight, down_weight):
    gate, up = F.linear(x, gate_up_weight).chunk(2, dim=-1)
    return F.linear(F.hardswish(gate) * up, down_weight)


def mlp_silu_twice(x, gate_up_weight, down_weight):
    gate, up = F.linear(x, gate_up_weight).chunk(2, dim=-1)
    return F.linear(F.silu(F.silu(gate)) * up, down_weight)


def mlp_quick_gelu(x, gate_up_weight, down_weight):
    gate, up = F.linear(x, gate_up_weight).chunk(2, dim=-1)
    return F.linear(gate * torch.sigmoid(1.702 * gate) * up, down_weight)


def mlp_normed_units(x, gate_up_weight, down_weight):
    gate, up = F.linear(x, gate_up_weight).chunk(2, dim=-1)
    return F.linear(F.normalize(F.silu(gate) * up, dim=-1), down_weight)


WRONG = {
    "ch01.rms_norm": (
        norm_of_the_first_half,
        norm_of_the_first_token,
        norm_with_clamped_mean,
        norm_in_bfloat16,
        norm_bessel,
        norm_that_wants_two_axes,
        norm_of_viewed_rows,
    ),
    "ch01.add_rms_norm": (
        add_norm_without_bfloat16,
        add_norm_averaged,
        add_norm_scaled_residual,
    ),
    "ch01.rope": (
        rope_with_reversed_speeds,
        rope_of_half_a_head,
        rope_modulo_64,
        rope_log_base_two,
        rope_flipped_positions,
        rope_of_half_positions,
        rope_of_int16_positions,
        rope_by_a_table_of_4096,
    ),
    "ch01.split_qkv": (
        split_reversed_heads,
        split_first_value_head_only,
        split_norm_over_heads_axis,
        split_without_bfloat16,
    ),
    "ch01.swiglu": (
        mlp_halves_exchanged,
        mlp_by_a_ratio_of_exponentials,
        mlp_with_hard_swish,
        mlp_silu_twice,
        mlp_quick_gelu,
        mlp_normed_units,
    ),
}
WRONG_PAIRS = [(task_id, f) for task_id, functions in WRONG.items() for f in functions]


@pytest.mark.parametrize(
    ("task_id", "function"), WRONG_PAIRS, ids=lambda x: getattr(x, "__name__", x)
)
def test_a_mistake_written_otherwise_is_refused(task_id, function):
    report = report_on(task_id, function)
    assert report.state == "NOT YET"
    assert len(render(report).splitlines()) <= 18
