"""The two kinds of linear layer a transformer block is made of, and the product they share.

A block has two pairs of products: qkv and o, gate_up and down. The first of a pair is cut over
devices by its output (`FusedLinear`: each device computes some heads), the second by its input
(`RowParallelLinear`: each device adds up its part, and `all_reduce` sums the parts). So a pair
needs one exchange. With one device nothing is cut. Next file to read: `norm.py`.
Paper: Megatron-LM, arXiv:1909.08053, section 3.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from minivllm.device import uses_kernels
from minivllm.parallel import TensorParallel

_FEW_ROWS = 128  # on a CPU
_VERY_FEW_ROWS = 32  # on a GPU


def matmul(
    x: Float[Tensor, "num_rows in_features"],
    weight: Float[Tensor, "out_features in_features"],
    bias: Float[Tensor, " out_features"] | None = None,
) -> Float[Tensor, "num_rows out_features"]:
    """`x @ weight.T + bias`; the result may be a transposed view of its memory.

    On a GPU a product with few rows may be a kernel of our own (`few_rows_matmul.py`).

    On a CPU `F.linear` is slow for the few rows of a decode step, and `weight @ x.T` is the same
    product by a faster route. A product with one column (it runs on one thread) or 9 to 15 columns
    is slow again, so zero columns are added to make 2 or 16. No weight is copied. In bfloat16 and
    beyond 128 rows `F.linear` is as good or better. Microseconds in float32 on two cores (AMD EPYC,
    MKL 2024.2), `in_features -> out_features`:

        rows                     1       2       8      12      32     128
        576 -> 3072  F.linear  436     727     593     661    1009    2666
                     here      211     185     360     573     857    2497
        576 -> 49152 F.linear 6.9e3  13.9e3  11.2e3  11.4e3  18.8e3   107e3
                     here     2.8e3   2.4e3   5.6e3  10.6e3  15.2e3    91e3
    """
    num_rows = len(x)
    if uses_kernels(x) and num_rows <= _VERY_FEW_ROWS:
        from minivllm.kernels.few_rows_matmul import few_rows_matmul, is_faster

        if is_faster(num_rows, len(weight)):
            return few_rows_matmul(x, weight, bias)
    if x.device.type != "cpu" or x.dtype != torch.float32 or num_rows > _FEW_ROWS:
        return F.linear(x, weight, bias)
    num_columns = 2 if num_rows == 1 else 16 if 8 < num_rows < 16 else num_rows
    if num_columns > num_rows:
        x = F.pad(x, (0, 0, 0, num_columns - num_rows))
    if num_columns < 16:
        x = x.contiguous()  # the fast route for so few columns is taken for this layout only
    if bias is None:
        product = torch.mm(weight, x.t())
    else:
        product = torch.addmm(bias[:, None], weight, x.t())
    return product[:, :num_rows].t()


class FusedLinear(nn.Module):
    """Several linear layers with one input, computed as one product.

    `weight` is `[sum of the parts, in_features]`: the parts' weights below each other, such as
    q over k over v; `bias`, if there is one, likewise.

    Attributes:
        part_rows: Name of each part in a checkpoint -> its rows of `weight` and `bias`.
    """

    def __init__(
        self, in_features: int, parts: dict[str, int], *, bias: bool, tp: TensorParallel
    ) -> None:
        super().__init__()
        self.part_rows: dict[str, slice] = {}
        num_rows = 0
        for name, size in parts.items():
            start, num_rows = num_rows, num_rows + tp.shard(size, name)
            self.part_rows[name] = slice(start, num_rows)
        self.weight = nn.Parameter(torch.empty(num_rows, in_features), requires_grad=False)
        self.bias = nn.Parameter(torch.empty(num_rows), requires_grad=False) if bias else None

    def forward(
        self, x: Float[Tensor, "num_tokens in_features"]
    ) -> Float[Tensor, "num_tokens out_features"]:
        """The parts' outputs side by side; may be a transposed view (see `matmul`)."""
        return matmul(x, self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """`x @ weight.T + bias`, where each device holds some columns of `weight` and that part of `x`.

    `weight` is `[out_features, in_features]`, `bias` `[out_features]`.
    """

    def __init__(
        self, in_features: int, out_features: int, *, bias: bool, tp: TensorParallel
    ) -> None:
        super().__init__()
        self.tp = tp
        in_features = tp.shard(in_features, "in_features")
        self.weight = nn.Parameter(torch.empty(out_features, in_features), requires_grad=False)
        self.bias = nn.Parameter(torch.empty(out_features), requires_grad=False) if bias else None

    def forward(
        self,
        x: Float[Tensor, "num_tokens in_features"],
        residual: Float[Tensor, "num_tokens out_features"] | None = None,
    ) -> Float[Tensor, "num_tokens out_features"]:
        """The sum over all devices; may be a transposed view (see `matmul`).

        Added to `residual` if there is one. On a GPU the product itself does that, and may
        overwrite `residual`.
        """
        if residual is not None and uses_kernels(x) and self.tp.size == 1 and self.bias is None:
            return add_matmul(residual, x, self.weight)
        out = self.tp.all_reduce(matmul(x, self.weight))
        out = out if self.bias is None else out + self.bias  # added once, not by every device
        return out if residual is None else residual + out


def add_matmul(
    residual: Float[Tensor, "num_rows out_features"],
    x: Float[Tensor, "num_rows in_features"],
    weight: Float[Tensor, "out_features in_features"],
) -> Float[Tensor, "num_rows out_features"]:
    """`residual + x @ weight.T` on a GPU, in one kernel; `residual` may be overwritten with it."""
    from minivllm.kernels.few_rows_matmul import few_rows_matmul, is_faster

    if is_faster(len(x), len(weight)):
        return few_rows_matmul(x, weight, residual)
    return residual.addmm_(x, weight.t())
