"""UniProcExecutor: one worker, in this process, without torch.distributed.

Next file to read: `minivllm/worker/worker.py`.
"""

from __future__ import annotations

from pathlib import Path

from minivllm.config import LLMConfig
from minivllm.errors import EngineDeadError
from minivllm.executor.base import Executor, PendingOutput
from minivllm.messages import SchedulerOutput
from minivllm.models.hf_config import ModelArchitecture
from minivllm.worker.worker import Worker


class UniProcExecutor(Executor):
    """Calls its one worker directly."""

    def __init__(self, config: LLMConfig, arch: ModelArchitecture, folder: Path) -> None:
        self._worker: Worker | None = Worker(config, arch, folder)
        self.runs_beside_host = self._worker.device.type != "cpu"

    @property
    def worker(self) -> Worker:
        """The worker.

        Raises:
            EngineDeadError: It was shut down.
        """
        if self._worker is None:
            raise EngineDeadError("the engine was shut down: build a new LLM")
        return self._worker

    def determine_num_blocks(self) -> int:
        """See `Executor.determine_num_blocks`."""
        return self.worker.determine_num_blocks()

    def initialize_kv_cache(self, num_blocks: int) -> None:
        """See `Executor.initialize_kv_cache`."""
        self.worker.initialize_kv_cache(num_blocks)

    def start(self, plan: SchedulerOutput) -> PendingOutput:
        """See `Executor.start`."""
        return self.worker.start(plan)

    def reset(self) -> None:
        """See `Executor.reset`."""
        self.worker.reset()

    def shutdown(self) -> None:
        """See `Executor.shutdown`."""
        self._worker = None
