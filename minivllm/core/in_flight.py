"""InFlightScheduler: plans a step while the tokens of the one before are still being sampled.

A plan needs to know how many tokens each request has, not which: so it can be made early.

    step            n: A samples          n + 1: A computes that token, samples the next
    host            plan n, plan n + 1,           enter n's tokens, plan n + 2, ...
    A.token_ids     [p p p]                       [p p p t]
    A.num_in_flight 0 -> 1 -> 2                   1

What the plain scheduler does when the step's result comes, counting its tokens as computed, is
done here as soon as it is planned. Steps run in the order of their plans, so whoever reads a slot
later finds it written. What cannot be known early comes one step late:

- that a token ends its request: the step under way still computes one token for it, and that is
  thrown away. The end by length is known in time, and costs nothing.
- the hash of a block whose last token is in flight: others can hit it one step later.

Source: vLLM: v1/core/sched/async_scheduler.py.
Next file to read: `minivllm/engine/step_loop.py`, which drives it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from minivllm.core.request import Request, RequestStatus
from minivllm.core.scheduler import Scheduler
from minivllm.messages import EngineCoreOutput, ModelRunnerOutput, SchedulerOutput


class InFlightScheduler(Scheduler):
    """The same plans, made before the last step's tokens are known."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        # Of each plan whose result is still to come, its requests. A name alone would not do: a
        # request can end, and another one take its name, while its token is in flight.
        self._planned: deque[dict[str, Request]] = deque()

    def schedule(self) -> SchedulerOutput:
        """The plan of the next step, whose tokens count as computed from now on."""
        plan = super().schedule()
        planned = {}
        for request_id, num_tokens in plan.num_scheduled_tokens.items():
            request = planned[request_id] = self.requests[request_id]
            request.num_computed_tokens += num_tokens
            if request.num_computed_tokens == len(request.token_ids) + request.num_in_flight:
                request.num_in_flight += 1
        self._planned.append(planned)
        return plan

    def update_from_output(
        self, plan: SchedulerOutput, output: ModelRunnerOutput
    ) -> list[EngineCoreOutput]:
        """Enter the tokens of the oldest plan under way, which `plan` is.

        Returns:
            One entry for each request that got a token, or log-probabilities of its prompt.
        """
        planned = self._planned.popleft()
        if output.logprobs or output.prompt_logprobs:
            output = _without_ended(output, planned)
        core_outputs = []
        for request_id, token_id in zip(output.request_ids, output.sampled_token_ids, strict=True):
            request = planned[request_id]
            request.num_in_flight -= 1
            if request.finish_reason is not None:
                continue  # it ended meanwhile: nobody asks for this token
            core_outputs.append(self._enter_token(request, token_id))
        return self._complete(core_outputs, output)

    def _enter_token(self, request: Request, token_id: int) -> EngineCoreOutput:
        is_waiting = request.status is RequestStatus.PREEMPTED  # since this token was planned
        core_output = self._append_token(request, token_id)
        if request.finish_reason is not None:
            if is_waiting:
                self.waiting.remove(request)
        elif request.num_computed_tokens >= request.num_tokens:
            # The step under way computes this token, and its block may now be full.
            self.kv_cache_manager.cache_blocks(request, request.num_tokens)
        return core_output

    def recover(self) -> None:
        """See `Scheduler.recover`; tokens in flight are lost, and will be sampled again."""
        self._planned.clear()
        for request in self.requests.values():
            request.num_in_flight = 0
        super().recover()


def _without_ended(output: ModelRunnerOutput, planned: Mapping[str, Request]) -> ModelRunnerOutput:
    """The output without log-probabilities of requests that have ended since they were planned."""
    ended = {name for name, request in planned.items() if request.finish_reason is not None}
    return replace(
        output,
        logprobs={name: of for name, of in output.logprobs.items() if name not in ended},
        prompt_logprobs={
            name: of for name, of in output.prompt_logprobs.items() if name not in ended
        },
    )
