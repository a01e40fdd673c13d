"""`launch`: the one way to start a Triton kernel, so that whoever records a step can see it.

A kernel's launch passes PyTorch's dispatcher by, so none of PyTorch's modes would see it.
`torch.overrides` is the public way to show them a function of one's own. Needs no Triton itself.
"""

from __future__ import annotations

from typing import Any

from torch.overrides import handle_torch_function, has_torch_function


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Runs `kernel[grid](*args, **constants)`, or hands it to the active `TorchFunctionMode`.

    Args:
        kernel: A function under `@triton.jit`.
        grid: How many programs, along up to three axes.
        *args: The kernel's pointers (as tensors), sizes and strides.
        **constants: Its `constexpr` arguments, and options such as `num_warps`.
    """
    # An active mode makes this true for whatever is asked about, and a tuple is soon asked.
    if has_torch_function((grid,)):
        handle_torch_function(launch, (grid,), kernel, grid, *args, **constants)
    else:
        kernel[grid](*args, **constants)
