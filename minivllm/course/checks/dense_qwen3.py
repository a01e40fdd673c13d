"""Chapter 03's oracle: Qwen3 without a cache, one request and one head at a time.

Computes in the dtype of its first argument: float64 is what is right, another says how far off a
right answer in it may be. Shares no code with `minivllm/models/qwen3.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from minivllm.models.hf_config import ModelArchitecture

Weights = Mapping[str, Tensor]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Each row over its root mean square, times the weight."""
    return weight.to(x.dtype) * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def turn(head: Tensor, theta: float) -> Tensor:
    """The rows of one head, `[num_tokens, head_dim]`, turned by their positions 0, 1, 2, ..."""
    num_tokens, half = len(head), head.shape[1] // 2
    # The angles are those of float32 in every implementation: a part of the model, not an error.
    speed = 1.0 / theta ** (torch.arange(0, 2 * half, 2, dtype=torch.float32) / (2 * half))
    angles = (torch.arange(num_tokens, dtype=torch.float32)[:, None] * speed).double()
    cos, sin = angles.cos().to(head.dtype), angles.sin().to(head.dtype)
    a, b = head[:, :half], head[:, half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], 1)


def linear(x: Tensor, weights: Weights, name: str) -> Tensor:
    """One product, with the bias if there is one."""
    out = x @ weights[f"{name}.weight"].to(x.dtype).T
    bias = weights.get(f"{name}.bias")
    return out if bias is None else out + bias.to(x.dtype)


def attention(x: Tensor, weights: Weights, arch: ModelArchitecture) -> Tensor:
    """What attention adds to the rows of one request."""
    size, eps, theta = arch.head_dim, arch.rms_norm_eps, arch.rope.theta
    q, k, v = (linear(x, weights, name) for name in ("q_proj", "k_proj", "v_proj"))
    hidden = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    heads = []
    for head in range(arch.num_heads):
        first = head * size
        shared = head // (arch.num_heads // arch.num_kv_heads) * size
        q_head = rms_norm(q[:, first : first + size], weights["q_norm.weight"], eps)
        k_head = rms_norm(k[:, shared : shared + size], weights["k_norm.weight"], eps)
        scores = turn(q_head, theta) @ turn(k_head, theta).T / size**0.5
        share = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        heads.append(share @ v[:, shared : shared + size])
    return linear(torch.cat(heads, 1), weights, "o_proj")


def decoder_layer(x: Tensor, weights: Weights, arch: ModelArchitecture) -> Tensor:
    """The residual stream of one request after one layer."""
    eps = arch.rms_norm_eps
    normed = rms_norm(x, weights["input_layernorm.weight"], eps)
    x = x + attention(normed, under("self_attn.", weights), arch)
    normed = rms_norm(x, weights["post_attention_layernorm.weight"], eps)
    gate, up = linear(normed, weights, "mlp.gate_proj"), linear(normed, weights, "mlp.up_proj")
    return x + linear(gate / (1 + (-gate).exp()) * up, weights, "mlp.down_proj")


def hidden_states(input_ids: Tensor, weights: Weights, arch: ModelArchitecture) -> Tensor:
    """The rows of one request after the last norm, in the dtype of the embedding."""
    x = weights["model.embed_tokens.weight"][input_ids]
    for index in range(arch.num_layers):
        x = decoder_layer(x, under(f"model.layers.{index}.", weights), arch)
    return rms_norm(x, weights["model.norm.weight"], arch.rms_norm_eps)


def logits(hidden: Tensor, weights: Weights) -> Tensor:
    """The scores of the next token after each row."""
    head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    return hidden @ head.to(hidden.dtype).T


def under(prefix: str, weights: Weights) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, without it."""
    return {k.removeprefix(prefix): w for k, w in weights.items() if k.startswith(prefix)}
