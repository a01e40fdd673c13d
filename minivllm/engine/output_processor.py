"""OutputProcessor: token ids become text, and a request's progress a `RequestOutput`.

It owns the text side of every unfinished request: the prompt as the user wrote it, its
continuations, the times. Outputs go to an inbox, a dict that the request's adder chose, so that
several users of one engine never take each other's outputs:

    step:  core outputs -> completions take them -> text, stop strings -> inbox[request_id] = output

Next file to read: `completion_state.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from minivllm.core.request import Request
from minivllm.engine.completion_state import CompletionState
from minivllm.engine.detokenizer import TokenDecoder
from minivllm.engine.stats import StatsCounter
from minivllm.errors import RequestError
from minivllm.messages import EngineCoreOutput
from minivllm.outputs import FinishReason, RequestMetrics, RequestOutput

Inbox = dict[str, RequestOutput]  # the latest output of each request, which holds all before it
EndInCore = Callable[[Iterable[str], FinishReason], None]


@dataclass(kw_only=True)
class RequestState:
    """What is known of an unfinished request on the text side.

    Attributes:
        request_id: Its name.
        prompt: Its text; `None` if it was given as token ids.
        prompt_token_ids: The prompt as the model sees it.
        is_streamed: Whether it is reported in each step in which it gets a token.
        inbox: Where its outputs go.
        completions: Its continuations.
        arrival_time: When it was added.
        first_token_time: When its first token came; `None` before.
        last_token_time: When its latest token came; `None` before.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: tuple[int, ...]
    is_streamed: bool
    inbox: Inbox
    completions: Sequence[CompletionState]
    arrival_time: float
    first_token_time: float | None = None
    last_token_time: float | None = None

    @property
    def core_ids(self) -> list[str]:
        """The names of its continuations in the core."""
        return [completion.request.request_id for completion in self.completions]

    @property
    def is_finished(self) -> bool:
        """Whether all continuations have ended."""
        return all(completion.finish_reason is not None for completion in self.completions)

    @property
    def needs_each_token(self) -> bool:
        """Whether someone looks at its text before its end: decoding is not cheap."""
        return self.is_streamed or bool(self.completions[0].request.sampling_params.stop)

    def abort(self) -> None:
        """End those continuations that still run, and report."""
        for completion in self.completions:
            if completion.finish_reason is None:
                completion.take(EngineCoreOutput(completion.request.request_id, (), "abort"))
        self.report()

    def report(self) -> None:
        """Put what its user gets to see now into the inbox."""
        completions = self.completions
        prompt_logprobs = completions[0].logprobs.prompt_logprobs
        self.inbox[self.request_id] = RequestOutput(
            request_id=self.request_id,
            prompt=self.prompt,
            prompt_token_ids=self.prompt_token_ids,
            outputs=tuple(completion.output() for completion in completions),
            finished=self.is_finished,
            prompt_logprobs=None if prompt_logprobs is None else list(prompt_logprobs),
            metrics=self.metrics(),
        )

    def metrics(self) -> RequestMetrics:
        """Its times and counts, as of now."""
        requests = [completion.request for completion in self.completions]
        return RequestMetrics(
            arrival_time=self.arrival_time,
            first_token_time=self.first_token_time,
            last_token_time=self.last_token_time,
            finished_time=time.monotonic() if self.is_finished else None,
            num_output_tokens=max(len(each.token_ids) for each in self.completions),
            num_cached_tokens=sum(each.num_cached_tokens or 0 for each in requests),
            num_preemptions=sum(each.num_preemptions for each in requests),
        )


class OutputProcessor:
    """The text side of all unfinished requests."""

    def __init__(self, tokenizer: Any, end_in_core: EndInCore, stats: StatsCounter) -> None:
        """Start without requests.

        Args:
            tokenizer: The Hugging Face tokenizer.
            end_in_core: Called to end a request that the core takes for running.
            stats: Is told of each request that ends.
        """
        self._decoder = TokenDecoder(tokenizer)
        self._end_in_core = end_in_core
        self._stats = stats
        self._states: dict[str, RequestState] = {}
        self._owners: dict[str, tuple[RequestState, CompletionState]] = {}  # by the core's names
        self._news: dict[str, RequestState] = {}  # requests whose new tokens are not yet text

    @property
    def has_news(self) -> bool:
        """Whether a step that failed has left something to report."""
        return bool(self._news)

    def add_request(
        self,
        request_id: str,
        prompt: str | None,
        requests: Sequence[Request],
        *,
        is_streamed: bool,
        inbox: Inbox,
    ) -> None:
        """Expect tokens for `requests`, the continuations of one prompt.

        Raises:
            RequestError: An unfinished request has this name.
        """
        names = [request_id, *(request.request_id for request in requests)]
        if request_id in self._states or any(name in self._owners for name in names):
            raise RequestError(f"{request_id=} is in use: choose another")
        state = RequestState(
            request_id=request_id,
            prompt=prompt,
            prompt_token_ids=tuple(requests[0].token_ids),
            is_streamed=is_streamed,
            inbox=inbox,
            completions=[
                CompletionState(index, request, self._decoder)
                for index, request in enumerate(requests)
            ],
            arrival_time=time.monotonic(),
        )
        self._states[request_id] = state
        self._owners.update(
            (core_id, (state, completion))
            for core_id, completion in zip(state.core_ids, state.completions, strict=True)
        )

    def process(self, core_outputs: Iterable[EngineCoreOutput]) -> None:
        """Take what a step brought; put outputs of ended and of streamed requests into inboxes.

        If the text of a request can't be made, the request is aborted, with the text it has, and
        the error goes on. The others are reported by the next call.
        """
        now = time.monotonic()
        for core_output in core_outputs:
            state, completion = self._owners[core_output.request_id]
            completion.take(core_output)
            has_token, has_ended = bool(core_output.new_token_ids), core_output.finish_reason
            if has_token:
                state.last_token_time = now
                state.first_token_time = state.first_token_time or now
            if has_ended or (has_token and state.needs_each_token):
                self._news[state.request_id] = state
        while self._news:
            state = next(iter(self._news.values()))
            try:
                self._report(state)
            except Exception:  # the tokenizer's; it would come again with every token
                self._forget(state)
                state.abort()
                raise
            self._news.pop(state.request_id, None)

    def catch_up(self) -> None:
        """Take tokens of a step that failed after the core had entered them."""
        late = []
        for core_id, (_, completion) in self._owners.items():
            request = completion.request
            missing = tuple(request.output_token_ids[len(completion.token_ids) :])
            if missing or (request.finish_reason and not completion.finish_reason):
                late.append(
                    EngineCoreOutput(core_id, missing, request.finish_reason, request.stop_reason)
                )
        self.process(late)

    def abort(self, request_ids: Iterable[str]) -> list[RequestOutput]:
        """End requests here and in the core; gives their outputs, which also go to the inboxes.

        Unknown ids are ignored.
        """
        found = [self._states[i] for i in dict.fromkeys(request_ids) if i in self._states]
        for state in found:
            self._forget(state)
            state.abort()
        for state in found:  # all have ended before the tokenizer is asked for anything
            self._report(state)
        return [state.inbox[state.request_id] for state in found]

    def _report(self, state: RequestState) -> None:
        for completion in state.completions:
            if completion.update():
                self._end_in_core([completion.request.request_id], "stop")
        if state.is_finished or state.is_streamed:
            state.report()
        if state.is_finished:
            self._forget(state)

    def _forget(self, state: RequestState) -> None:
        self._end_in_core(state.core_ids, "abort")  # those that still run
        self._news.pop(state.request_id, None)
        is_known = self._states.pop(state.request_id, None) is not None
        was_refused = state.completions[0].request.finish_reason is None  # by the core
        if is_known and not was_refused:
            self._stats.count_finished(state.metrics())
        for core_id in state.core_ids:
            self._owners.pop(core_id, None)
