"""OutputProcessor: token ids become text, and a request's progress a `RequestOutput`.

It owns the text side of every request: the prompt as the user wrote it, the detokenizer, the times.
Next file to read: `detokenizer.py`, then `minivllm/llm.py` once more, where the outputs are sorted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from minivllm.core.request import Request
from minivllm.engine.detokenizer import Detokenizer
from minivllm.messages import EngineCoreOutput
from minivllm.outputs import CompletionOutput, FinishReason, RequestMetrics, RequestOutput


@dataclass
class _RequestState:
    """What is known of an unfinished request on the text side."""

    prompt: str | None
    prompt_token_ids: tuple[int, ...]
    detokenizer: Detokenizer
    is_streamed: bool
    arrival_time: float
    token_ids: list[int] = field(default_factory=list)
    num_detokenized: int = 0
    first_token_time: float | None = None


class OutputProcessor:
    """The text side of all unfinished requests."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._states: dict[str, _RequestState] = {}

    def add_request(self, request: Request, prompt: str | None, *, is_streamed: bool) -> None:
        """Expect tokens for `request`; a streamed one is reported in each step it gets some."""
        self._states[request.request_id] = _RequestState(
            prompt=prompt,
            prompt_token_ids=tuple(request.token_ids),
            detokenizer=Detokenizer(self._tokenizer),
            is_streamed=is_streamed,
            arrival_time=time.monotonic(),
        )

    def process(self, core_outputs: Sequence[EngineCoreOutput]) -> list[RequestOutput]:
        """The outputs of the requests that ended in this step, or are streamed."""
        now = time.monotonic()
        outputs = []
        for core_output in core_outputs:
            state = self._states[core_output.request_id]
            state.token_ids.extend(core_output.new_token_ids)
            state.first_token_time = state.first_token_time or now
            self._detokenize(state, core_output.finish_reason)
            if core_output.finish_reason is not None:
                del self._states[core_output.request_id]
            if core_output.finish_reason is not None or state.is_streamed:
                outputs.append(self._request_output(state, core_output, now))
        return outputs

    def abort(self, request_id: str) -> RequestOutput | None:
        """The output of a request that ends here and now; `None` if it is not known."""
        state = self._states.pop(request_id, None)
        if state is None:
            return None
        self._detokenize(state, "abort")
        core_output = EngineCoreOutput(request_id, (), "abort")
        return self._request_output(state, core_output, time.monotonic())

    def _detokenize(self, state: _RequestState, finish_reason: FinishReason | None) -> None:
        """Bring the text up to date, where anyone will look at it: decoding is not cheap."""
        if finish_reason is None and not state.is_streamed:
            return
        end = len(state.token_ids)
        if finish_reason == "stop":
            end -= 1  # the token that ends a text is not part of it
        state.detokenizer.add(state.token_ids[state.num_detokenized : end])
        state.num_detokenized = end
        if finish_reason is not None:
            state.detokenizer.finish()

    def _request_output(
        self, state: _RequestState, core_output: EngineCoreOutput, now: float
    ) -> RequestOutput:
        finish_reason: FinishReason | None = core_output.finish_reason
        completion = CompletionOutput(
            index=0,
            text=state.detokenizer.text,
            token_ids=tuple(state.token_ids),
            finish_reason=finish_reason,
            stop_reason=core_output.stop_reason,
        )
        return RequestOutput(
            request_id=core_output.request_id,
            prompt=state.prompt,
            prompt_token_ids=state.prompt_token_ids,
            outputs=(completion,),
            finished=finish_reason is not None,
            metrics=RequestMetrics(
                arrival_time=state.arrival_time,
                first_token_time=state.first_token_time,
                finished_time=now if finish_reason is not None else None,
                num_cached_tokens=core_output.num_cached_tokens,
                num_preemptions=core_output.num_preemptions,
            ),
        )
