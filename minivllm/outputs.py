"""What a user gets back: one `RequestOutput` per prompt, spelled as in vLLM.

Plain data, made by `minivllm/engine/output_processor.py`. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

FinishReason = Literal["stop", "length", "abort"]


@dataclass(frozen=True)
class Logprob:
    """How likely one token was at one place, by the model's raw logits.

    Attributes:
        logprob: The natural logarithm of its probability.
        rank: Its place among all tokens; 1 is the most likely.
        decoded_token: Its text by itself; `None` where no text is made (`detokenize=False`).
    """

    logprob: float
    rank: int
    decoded_token: str | None


@dataclass(frozen=True, kw_only=True)
class CompletionOutput:
    """One generated continuation.

    Attributes:
        index: Which of the request's continuations this is.
        text: The generated text, without end-of-text or stop tokens.
        token_ids: The generated tokens; a stop or end-of-text token is the last of them.
        finish_reason: "stop" (end of text, a stop token or a stop text), "length" (`max_tokens` or
            the context length), "abort", or `None` while the request runs.
        stop_reason: The stop token id or stop text that ended it; `None` for an end-of-text token.
        logprobs: One dict per generated token: token id -> `Logprob`, the generated one first;
            `None` if not asked for.
        cumulative_logprob: The sum over the generated tokens; `None` if not asked for.
    """

    index: int
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    logprobs: Sequence[Mapping[int, Logprob]] | None = None
    cumulative_logprob: float | None = None


@dataclass(frozen=True, kw_only=True)
class RequestMetrics:
    """When things happened to a request, in seconds of `time.monotonic`, and what it cost.

    Attributes:
        arrival_time: The request was added.
        first_token_time: Its first token came back; `None` if none did.
        last_token_time: Its latest token came back; `None` if none did.
        finished_time: It ended; `None` while it runs.
        num_output_tokens: Generated tokens; of the longest continuation if there are several.
        num_cached_tokens: Prompt tokens that the prefix cache saved from being computed.
        num_preemptions: How often it lost its blocks and was computed anew.
    """

    arrival_time: float
    first_token_time: float | None = None
    last_token_time: float | None = None
    finished_time: float | None = None
    num_output_tokens: int = 0
    num_cached_tokens: int = 0
    num_preemptions: int = 0

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from arrival to the first token; `None` before it."""
        return None if self.first_token_time is None else self.first_token_time - self.arrival_time

    @property
    def time_per_output_token(self) -> float | None:
        """Mean seconds from one token to the next; `None` before the second."""
        if self.first_token_time is None or self.last_token_time is None:
            return None
        num_gaps = self.num_output_tokens - 1
        return (self.last_token_time - self.first_token_time) / num_gaps if num_gaps > 0 else None

    @property
    def latency(self) -> float | None:
        """Seconds from arrival to end; `None` while it runs."""
        return None if self.finished_time is None else self.finished_time - self.arrival_time


@dataclass(frozen=True, kw_only=True)
class RequestOutput:
    """A prompt and what was generated for it.

    Attributes:
        request_id: The id given to `add_request`, or one that `generate` made.
        prompt: The prompt's text; `None` if it was given as token ids.
        prompt_token_ids: The prompt as the model saw it.
        outputs: The continuations.
        finished: Whether all of them have ended.
        prompt_logprobs: One entry per prompt token, `None` for the first, which has nothing before
            it; `None` if not asked for.
        metrics: Times and counts.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: tuple[int, ...]
    outputs: tuple[CompletionOutput, ...]
    finished: bool
    metrics: RequestMetrics = field(repr=False)
    prompt_logprobs: Sequence[Mapping[int, Logprob] | None] | None = None

    @property
    def output_text(self) -> str:
        """The text of the first continuation."""
        return self.outputs[0].text
