"""StepUnderWay: what the host keeps of a step that the device may still be running.

Starting a step only queues its work, so the sampled tokens are not there yet when `start` returns.
They are on their way into pinned memory; `result` waits for them, which is the only place where
the host waits for the device.
Next file to read: `input_batch.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Int64
from torch import Tensor

from minivllm.messages import ModelRunnerOutput, PromptLogprobs, TokenLogprobs
from minivllm.worker.input_batch import ExpectedTokens, InputBatch


class HostCopy:
    """A copy of a tensor of the device, in the memory of the host."""

    def __init__(self, tensor: Tensor) -> None:
        """Start the copy; on a CPU there is nothing to copy."""
        self._copy, self._arrived = tensor, None
        if tensor.is_cuda:
            self._copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._copy.copy_(tensor, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def read(self) -> Tensor:
        """The copy, once it has arrived."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._copy


@dataclass(frozen=True, kw_only=True)
class SampledStep:
    """The tokens that a step samples.

    Attributes:
        batch: The rows that wait for them.
        expected: Which rows, and where in them.
        token_ids: The tokens, on their way.
    """

    batch: InputBatch
    expected: ExpectedTokens
    token_ids: HostCopy


@dataclass(frozen=True, kw_only=True)
class StepUnderWay:
    """A started step.

    Attributes:
        sampled: What it samples; `None` if no request is due a token.
        logprobs: By request, of the sampled token, for those that ask.
        prompt_logprobs: By request, for those that ask and compute prompt tokens in this step.
    """

    sampled: SampledStep | None = None
    logprobs: Mapping[str, TokenLogprobs] = field(default_factory=dict)
    prompt_logprobs: Mapping[str, PromptLogprobs] = field(default_factory=dict)

    def result(self) -> ModelRunnerOutput:
        """The step's tokens, which their rows know from now on; asked for once."""
        if self.sampled is None:
            return ModelRunnerOutput(prompt_logprobs=self.prompt_logprobs)
        token_ids: Int64[Tensor, " num_sampled"] = self.sampled.token_ids.read()
        self.sampled.batch.enter_tokens(self.sampled.expected, token_ids.numpy())
        return ModelRunnerOutput(
            request_ids=self.sampled.expected.request_ids,
            sampled_token_ids=token_ids.tolist(),
            logprobs=self.logprobs,
            prompt_logprobs=self.prompt_logprobs,
        )
