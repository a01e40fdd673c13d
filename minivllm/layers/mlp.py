"""SwiGLU: the feed-forward half of a transformer block.

    out = down_proj(silu(gate_proj(x)) * up_proj(x)),        silu(a) = a * sigmoid(a)

Each of the `intermediate_size` units is a value (up) and a valve (gate). The two products that
read x are computed as one. Next file to read: `embedding.py`.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from minivllm.device import uses_kernels
from minivllm.layers.linear import FusedLinear, RowParallelLinear
from minivllm.parallel import TensorParallel


class SwiGLU(nn.Module):
    """Gated feed-forward network, row by row.

    `gate_up_proj.weight` is `[2 * intermediate_size, hidden_size]`, `down_proj.weight`
    `[hidden_size, intermediate_size]`.
    Paper: GLU Variants Improve Transformer, arXiv:2002.05202, section 2.
    """

    def __init__(
        self, hidden_size: int, intermediate_size: int, *, bias: bool, tp: TensorParallel
    ) -> None:
        super().__init__()
        parts = {"gate_proj": intermediate_size, "up_proj": intermediate_size}
        self.gate_up_proj = FusedLinear(hidden_size, parts, bias=bias, tp=tp)
        self.down_proj = RowParallelLinear(intermediate_size, hidden_size, bias=bias, tp=tp)

    def forward(
        self,
        x: Float[Tensor, "num_tokens hidden_size"],
        residual: Float[Tensor, "num_tokens hidden_size"] | None = None,
    ) -> Float[Tensor, "num_tokens hidden_size"]:
        """The block's addition to the residual stream; if that is given, their sum in its place."""
        gate_up = self.gate_up_proj(x)
        out: Tensor = self.down_proj(silu_and_mul(gate_up), residual)
        return out


def silu_and_mul(
    gate_up: Float[Tensor, "num_tokens two_intermediate_size"],
) -> Float[Tensor, "num_tokens intermediate_size"]:
    """`silu(gate) * up` of rows that hold both, the gate first."""
    if uses_kernels(gate_up):
        from minivllm.kernels.silu_and_mul import silu_and_mul

        return silu_and_mul(gate_up)
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up
