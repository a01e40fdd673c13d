"""Executor: the border between planning and computing.

Above it stand the engine and the scheduler, which know neither devices nor processes; below it one
or many workers. Only plain data crosses (`minivllm/messages.py`).
Next file to read: `uniproc.py`, then `minivllm/worker/worker.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from minivllm.messages import ModelRunnerOutput, SchedulerOutput


class PendingOutput(Protocol):
    """A step that was started."""

    def result(self) -> ModelRunnerOutput:
        """The tokens it sampled, once they are there; asked for once, in the order of the steps."""


class Executor(ABC):
    """Runs plans on whatever devices there are.

    Attributes:
        runs_beside_host: Whether a started step goes on while the host does something else.
    """

    runs_beside_host: bool = False

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
    def start(self, plan: SchedulerOutput) -> PendingOutput:
        """Start one step. At most one may be under way when the next is started."""

    def execute_model(self, plan: SchedulerOutput) -> ModelRunnerOutput:
        """Run one step and give back the tokens it sampled."""
        return self.start(plan).result()

    @abstractmethod
    def reset(self) -> None:
        """Forget every request, after a step that failed half-way."""

    @abstractmethod
    def shutdown(self) -> None:
        """Give back weights and cache; a second call does nothing."""
