"""Kernels compiled for GPUs that are not here: what they need, and that the compiler takes them.

The interpreter accepts what a GPU's compiler refuses (`break` in a loop, products with fewer than
16 columns), and has no shared memory to run out of. Compiling needs no GPU, but does need a process
without the interpreter: triton comes first here, so that `minivllm.kernels` leaves it off.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime import driver

# Bytes of shared memory that a program can have: A100, H100 and H200.
SHARED_MEMORY = {80: 166_912, 90: 232_448}


class CompileOnlyDriver(DriverBase):
    """Stands for a GPU of architecture `arch`: kernels compile for it, and a launch is only noted.

    Triton asks its driver for all that this class defines: the target, the "device" (any key that
    tells two targets' kernels apart), what loads a compiled kernel, and what launches it.
    """

    def __init__(self, arch: int) -> None:
        self.arch = arch
        self.launched: list[object] = []  # the compiler's metadata of each launched kernel
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: {"max_shared_mem": SHARED_MEMORY[arch]},
            load_binary=lambda *kernel: (object(), None, 0, 0, 1024),  # module ... max threads
        )

    def launcher_cls(self, source: object, metadata: object) -> Callable[..., None]:
        """Triton keeps this function with the kernel, so it must find the driver of its day."""
        return lambda *arguments: driver.active.launched.append(metadata)

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.arch, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return self.arch

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_benchmarker(self) -> Callable[..., list[float]]:
        raise NotImplementedError("nothing runs here, so nothing can be timed")


@pytest.fixture(autouse=True, scope="session")
def _fresh_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels are compiled here and now, not found in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


@pytest.fixture
def compile_for() -> Callable[[int], contextlib.AbstractContextManager[list]]:
    """`with compile_for(90) as launched:` compiles for sm_90 what is launched on CPU tensors.

    `launched` gets the metadata of each launched kernel: `.name`, `.shared` (bytes), `.hash`,
    `.num_warps`. More shared memory than the GPU has raises Triton's `OutOfResources`.
    """
    assert not triton.knobs.runtime.interpret, "unset TRITON_INTERPRET: nothing would be compiled"

    @contextlib.contextmanager
    def compile_for(arch: int) -> Iterator[list]:
        previous = driver._active  # private, as `reset_active` raises where there is no GPU
        compile_only = CompileOnlyDriver(arch)
        driver.set_active(compile_only)
        try:
            yield compile_only.launched
        finally:
            driver.set_active(previous)

    return compile_for
