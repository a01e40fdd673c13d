"""Mistakes in chapter 03 that are in no bank: each must be refused all the same."""

from __future__ import annotations

import pytest

from minivllm.course.attempt import Attempt
from minivllm.course.declare import edit
from minivllm.course.examine import examine
from minivllm.course.grade import bank_of
from minivllm.course.registry import build_mutant, find, solution_of
from minivllm.course.render import MAX_LINES, WIDTH, render

ATTEND = "mixed = self.attn(q, k, v, kv_cache, attn_metadata)"
MISTAKES = {
    "attention.window_of_64": ("arch.head_dim, None)", "arch.head_dim, 64)"),
    "attention.x_in_float32": ("self.qkv_proj(x)", "self.qkv_proj(x.float())"),
    "attention.heads_reversed": ("mixed.flatten(1)", "mixed.flip(1).flatten(1)"),
    "attention.k_raw_in_cache": (
        ATTEND,
        ATTEND.replace("(q, k,", "(q, apply_rotary(k, *cos_sin),"),
    ),
    "attention.positions_backwards": (
        "apply_rotary(q, *cos_sin), ",
        "apply_rotary(q, cos_sin[0], -cos_sin[1]), ",
    ),
    "attention.cos_sin_swapped": ("apply_rotary(k, *cos_sin)", "apply_rotary(k, *cos_sin[::-1])"),
    "attention.first_kv_head": ("v = v.reshape", "v = v[:, : self.head_dim].repeat(1, 2).reshape"),
    "attention.none_for_metadata": ("kv_cache, attn_metadata)\n", "None, attn_metadata)\n"),
    "decoder_layer.half_residual": ("out: Tensor = x +", "out: Tensor = 0.5 * x +"),
    "decoder_layer.mlp_twice": (
        "out: Tensor = x +",
        "x = x + self.mlp(x)\n        out: Tensor = x +",
    ),
    "decoder_layer.mean_of_halves": ("out: Tensor = x +", "out: Tensor = x + 0.5 *"),
    "decoder_layer.difference": ("out: Tensor = x +", "out: Tensor = x -"),
    "model.norm_forgets_weight": (
        'out: Tensor = self.model["norm"](x)',
        'out: Tensor = self.model["norm"](x) / self.model["norm"].weight',
    ),
    "model.half_layers": (
        'self.model["layers"], kv_caches, strict=True',
        'self.model["layers"][::2], kv_caches[::2], strict=True',
    ),
    "model.table_of_128": (
        "cos_sin = self.rotary_emb(positions, x.dtype)",
        "cos_sin = [c[positions] for c in self.rotary_emb(torch.arange(128), x.dtype)]",
    ),
    "model.hidden_in_float32": (
        'out: Tensor = self.model["norm"](x)',
        'out: Tensor = self.model["norm"](x).float()',
    ),
    "model.one_cache_for_three": ("kv_caches, strict=True", "kv_caches[::-1][:1] * 3, strict=True"),
    "destinations.fused_emptied": ("in fused[layer].items()", "in fused.pop(layer).items()"),
    "destinations.reshaped": (
        "parameter[start : start + num_rows]",
        "parameter[start : start + num_rows].flip(0)",
    ),
    "destinations.by_the_largest": ("start += num_rows", "start += max(fused[layer].values())"),
    "destinations.suffix": ("*path, layer, kind =", "*path, kind, layer ="),
    "load_weights.returns_early": (
        "                missing.remove(name)",
        "                missing.remove(name)\n        return",
    ),
    "load_weights.axes_by_count": (
        "tensor.shape != targets[name].shape",
        "tensor.dim() != targets[name].dim()",
    ),
    "load_weights.first_wins": (
        "                if name not in missing:\n",
        "                if name in targets and name not in missing:\n"
        "                    continue\n"
        "                if name not in missing:\n",
    ),
    "load_weights.flattened": (
        "targets[name].copy_(tensor)",
        "targets[name].copy_(tensor.flip(0))",
    ),
    "load_weights.assertion": ('raise ValueError(f"no tensor', 'raise AssertionError(f"no tensor'),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_that_is_in_no_bank_is_refused(name):
    task = find(f"ch03.{name.partition('.')[0]}")
    source = solution_of(task)
    wrong = build_mutant(edit(name, "a mistake", MISTAKES[name]), task, source)
    attempt = Attempt(
        task=task, source=source, stub=source, file="mine.py", path="mine.py", ready=wrong
    )
    report = examine(attempt, bank_of(task))
    assert report.state == "NOT YET"
    lines = render(report).splitlines()
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= WIDTH
