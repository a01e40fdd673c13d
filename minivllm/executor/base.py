"""Executor: the border between planning and computing.

Above it stand the engine and the scheduler, which know neither devices nor processes; below it one
or many workers. Only plain data crosses (`minivllm/messages.py`).
Next file to read: `uniproc.py`, then `minivllm/worker/worker.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from minivllm.messages import ModelRunnerOutput, SchedulerOutput


class Executor(ABC):
    """Runs plans on whatever devices there are."""

    @abstractmethod
    def determine_num_blocks(self) -> int:
        """How many KV-cache blocks fit into the memory of every worker.

        Raises:
            ConfigError: Not even one fits; the message names bytes and the setting to change.
        """

    @abstractmethod
    def initialize_kv_cache(self, num_blocks: int) -> None:
        """Allocate the KV cache, once, before the first plan."""

    @abstractmethod
    def execute_model(self, plan: SchedulerOutput) -> ModelRunnerOutput:
        """Run one step and give back the tokens it sampled."""

    @abstractmethod
    def reset(self) -> None:
        """Forget every request, after a step that failed half-way."""

    @abstractmethod
    def shutdown(self) -> None:
        """Give back weights and cache; a second call does nothing."""
