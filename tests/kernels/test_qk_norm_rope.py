"""Norm, rotation and cache write against complex numbers in float64, and against the layers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from kernel_cases import LAYOUTS, NAN, assert_close, dtypes, pairwise
from torch import Tensor

from minivllm.kernels.qk_norm_rope import qk_norm_rope_cache_write, qk_norm_rope_cache_write_ref
from minivllm.layers.norm import RMSNorm
from minivllm.layers.rope_parameters import RopeParameters
from minivllm.layers.rotary import RotaryEmbedding, apply_rotary

EPS = 1e-6


@dataclass(frozen=True, kw_only=True)
class Step:
    """The heads of some tokens, and an empty cache: all NaN."""

    qkv: Tensor
    weights: tuple[Tensor | None, Tensor | None]
    cos: Tensor
    sin: Tensor
    key_cache: Tensor
    value_cache: Tensor
    slots: Tensor
    num_heads: int

    @property
    def heads(self) -> tuple[Tensor, Tensor, Tensor]:
        num_kv_heads, head_dim = self.key_cache.shape[2:]
        return self.qkv.unflatten(1, (-1, head_dim)).split(
            [self.num_heads, num_kv_heads, num_kv_heads], dim=1
        )

    def run(self, function=qk_norm_rope_cache_write, **changed: Tensor) -> Tensor:
        inputs = {"qkv": self.qkv, "cos": self.cos, "sin": self.sin, "slot_mapping": self.slots}
        return function(
            **{**inputs, **changed},
            q_weight=self.weights[0],
            k_weight=self.weights[1],
            eps=EPS,
            key_cache=self.key_cache,
            value_cache=self.value_cache,
            num_heads=self.num_heads,
        )


def make_step(
    num_tokens: int = 5,
    *,
    num_heads: int = 4,
    num_kv_heads: int = 2,
    head_dim: int = 64,
    block_size: int = 8,
    layout: str = "apart",
    has_norm: bool = True,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
) -> Step:
    random = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random).to(device, dtype)

    num_blocks = 2 + num_tokens // block_size
    positions = torch.randint(0, 3000, (num_tokens,), generator=random).to(device)
    rotary = RotaryEmbedding(RopeParameters(theta=10000.0), head_dim)
    cos, sin = rotary(positions, dtype)
    cache_shape = (num_blocks, block_size, num_kv_heads, head_dim)
    return Step(
        qkv=normal(num_tokens, (num_heads + 2 * num_kv_heads) * head_dim) * 3,
        weights=(normal(head_dim), normal(head_dim)) if has_norm else (None, None),
        cos=cos,
        sin=sin,
        key_cache=LAYOUTS[layout](cache_shape, cos),
        value_cache=LAYOUTS[layout](cache_shape, cos),
        slots=torch.randperm(num_blocks * block_size, generator=random)[:num_tokens].to(device),
        num_heads=num_heads,
    )


def exact_heads(step: Step, heads: Tensor, weight: Tensor | None) -> Tensor:
    """Each plane is a complex number, and turning it a multiplication."""
    x = heads.double()
    if weight is not None:
        mean_square = torch.linalg.vector_norm(x, dim=-1, keepdim=True) ** 2 / x.shape[-1]
        x = x / (mean_square + EPS).sqrt() * weight.double()
    half = x.shape[-1] // 2
    turn = torch.complex(step.cos[..., :half].double(), step.sin[..., half:].double())
    turned = torch.complex(x[..., :half], x[..., half:]) * turn
    return torch.cat([turned.real, turned.imag], dim=-1)


def heads_of_the_layers(step: Step, heads: Tensor, weight: Tensor | None) -> Tensor:
    """What a model computes with its layers, all in its dtype."""
    if weight is not None:
        norm = RMSNorm(heads.shape[-1], EPS).to(heads.device, heads.dtype)
        norm.weight.copy_(weight)
        heads = norm(heads)
    return apply_rotary(heads, step.cos, step.sin)


def stored(cache: Tensor, slots: Tensor) -> Tensor:
    return cache[slots // cache.shape[1], slots % cache.shape[1]]


def assert_right(step: Step, q: Tensor, rows: slice = slice(None)) -> None:
    """Queries and stored keys are close to the exact ones, stored values are equal."""
    q_heads, k_heads, v_heads = step.heads
    keys = stored(step.key_cache, step.slots[rows])
    for got, heads, weight in zip((q[rows], keys), (q_heads, k_heads), step.weights, strict=True):
        exact = exact_heads(step, heads, weight)[rows]
        assert_close(got, exact, heads_of_the_layers(step, heads, weight)[rows])
    assert torch.equal(stored(step.value_cache, step.slots[rows]), v_heads[rows])


def num_written(cache: Tensor) -> int:
    return int((~cache.isnan()).sum())


@pairwise(
    head_dim=[64, 80, 96, 128, 256],
    heads=[(1, 1), (3, 3), (8, 4), (9, 3), (14, 2), (16, 1), (16, 8)],
    block_size=[1, 8, 16, 256],
    layout=list(LAYOUTS),
    has_norm=[True, False],
    dtype=dtypes(),
)
def test_heads_of_any_shape_go_where_they_belong(
    head_dim, heads, block_size, layout, has_norm, dtype, device
):
    num_heads, num_kv_heads = heads
    step = make_step(
        3,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        block_size=block_size,
        layout=layout,
        has_norm=has_norm,
        dtype=dtype,
        device=device,
    )
    q = step.run()
    assert q.dtype == dtype
    assert q.is_contiguous()
    assert q.shape == (3, num_heads, head_dim)
    assert_right(step, q)
    assert num_written(step.key_cache) == num_written(step.value_cache) == 3 * heads[1] * head_dim


@pytest.mark.parametrize("has_norm", [True, False])
@pytest.mark.parametrize("dtype", dtypes())
def test_the_reference_computes_the_same(dtype, has_norm, device):
    step = make_step(dtype=dtype, has_norm=has_norm, device=device)
    assert_right(step, step.run(qk_norm_rope_cache_write_ref))


@pytest.mark.parametrize("num_tokens", [1, 2, 33])
def test_any_number_of_tokens(num_tokens, device):
    step = make_step(num_tokens, num_heads=2, num_kv_heads=2, device=device)
    assert_right(step, step.run())


def test_padding_is_not_written_and_its_nan_stays_alone(device):
    step = make_step(6, device=device)
    step.slots[[0, 3]] = -1
    step.qkv[[0, 3]] = NAN
    q = step.run()
    assert_right(step, q, slice(1, 3))
    assert_right(step, q, slice(4, 6))
    assert num_written(step.key_cache) == num_written(step.value_cache) == 4 * 2 * 64


def test_any_strides(device):
    step = make_step(device=device)
    views = {
        "qkv": step.qkv.t().contiguous().t(),  # what a product on a CPU may give
        "cos": step.cos.repeat_interleave(2, dim=0)[::2],
        "sin": step.sin.permute(2, 0, 1).contiguous().permute(1, 2, 0),
        "slot_mapping": step.slots.repeat_interleave(2)[::2],
    }
    assert_right(step, step.run(**views))
    margin = torch.cat([step.qkv, torch.full_like(step.qkv, NAN)], dim=1)
    assert_right(step, step.run(qkv=margin[:, : step.qkv.shape[1]]))


@pytest.mark.parametrize("dtype", dtypes()[1:])
def test_one_rounding_less_than_the_layers(dtype, device):
    step = make_step(16, has_norm=False, dtype=dtype, device=device)
    q_heads = step.heads[0]
    exact = exact_heads(step, q_heads, None)

    def mean_error(out: Tensor) -> float:
        return (out.double() - exact).abs().mean().item()

    assert mean_error(step.run()) < 0.9 * mean_error(heads_of_the_layers(step, q_heads, None))


def test_heads_of_zeros_stay_zero(device):
    step = make_step(2, device=device)
    step.qkv.zero_()
    assert not step.run().any()


def test_no_tokens(device):
    step = make_step(0, device=device)
    assert step.run().shape == (0, 4, 64)
    assert num_written(step.key_cache) == 0


@pytest.mark.gpu
def test_blocks_beyond_two_to_the_31():
    step = make_step(3, num_heads=16, num_kv_heads=8, head_dim=128, block_size=16, device="cuda")
    shape = (2**31 // (16 * 8 * 128) + 2, 16, 8, 128)
    large = [torch.empty(shape, dtype=step.qkv.dtype, device="cuda") for _ in range(2)]
    last = shape[0] * 16 - 1
    slots = torch.tensor([last, 7, last - 16], device="cuda")
    small_q = step.run()
    inputs = {**vars(step), "key_cache": large[0], "value_cache": large[1], "slots": slots}
    step_of_large = Step(**inputs)
    assert torch.equal(step_of_large.run(), small_q)
    for small_cache, large_cache in zip((step.key_cache, step.value_cache), large, strict=True):
        assert torch.equal(stored(small_cache, step.slots), stored(large_cache, slots))
