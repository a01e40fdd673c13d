"""StepPlan: the plan of one step while the scheduler is still making it.

A request can be planned and, a moment later, preempted for the sake of another. So the plan stays
open until all is decided, and is then frozen into the `SchedulerOutput` that leaves the planner.
Next file to read: `scheduler.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from minivllm.core.request import Request
from minivllm.messages import CachedRequestData, NewRequestData, SchedulerOutput
from minivllm.trace import RequestScheduled, Trace


@dataclass
class StepPlan:
    """Who computes how many tokens in this step.

    Attributes:
        budget: Tokens that can still be given out.
        num_scheduled_tokens: Tokens given to each request, in the order they were planned.
        continued: Planned requests that the worker has a row for.
        started: Planned requests that it has none for.
        new_block_ids: Blocks added to a request's table in this step, where there are any.
    """

    budget: int
    num_scheduled_tokens: dict[str, int] = field(default_factory=dict)
    continued: list[Request] = field(default_factory=list)
    started: list[Request] = field(default_factory=list)
    new_block_ids: dict[str, list[int]] = field(default_factory=dict)

    def start(self, request: Request, num_tokens: int, block_ids: list[int]) -> None:
        """Let a request that the worker does not know yet compute `num_tokens` tokens."""
        self.started.append(request)
        self.num_scheduled_tokens[request.request_id] = num_tokens
        self.budget -= num_tokens
        self.new_block_ids[request.request_id] = block_ids

    def withdraw(self, request: Request) -> None:
        """Take a running request that may have been planned already out again."""
        num_tokens = self.num_scheduled_tokens.pop(request.request_id, 0)
        if num_tokens:
            self.continued.remove(request)
            self.budget += num_tokens
            self.new_block_ids.pop(request.request_id, None)

    def freeze(
        self, step: int, preempted_ids: Sequence[str], finished_ids: Sequence[str]
    ) -> SchedulerOutput:
        """The plan as the worker gets it."""
        continued = self.continued
        continued_ids = [request.request_id for request in continued]
        return SchedulerOutput(
            step=step,
            new_requests=[
                NewRequestData(
                    request_id=request.request_id,
                    token_ids=tuple(request.token_ids),  # a copy: the request goes on growing
                    num_prompt_tokens=request.num_prompt_tokens,
                    sampling_params=request.sampling_params,
                    seed=request.seed,
                    block_ids=self.new_block_ids[request.request_id],
                    num_computed_tokens=request.num_computed_tokens,
                    stop_token_ids=tuple(request.stop_token_ids),
                    bad_words_token_ids=request.bad_words_token_ids,
                )
                for request in self.started
            ],
            cached_requests=CachedRequestData(
                request_ids=continued_ids,
                num_computed_tokens=[request.num_computed_tokens for request in continued],
                new_block_ids=[
                    self.new_block_ids.get(request_id, ()) for request_id in continued_ids
                ],
            ),
            num_scheduled_tokens=self.num_scheduled_tokens,
            total_num_scheduled_tokens=sum(self.num_scheduled_tokens.values()),
            preempted_request_ids=preempted_ids,
            finished_request_ids=finished_ids,
        )

    def record(self, trace: Trace) -> None:
        """Add an event for each request of the plan to `trace`."""
        for request in (*self.continued, *self.started):
            event = RequestScheduled(
                step=trace.step,
                request_id=request.request_id,
                num_tokens=self.num_scheduled_tokens[request.request_id],
                num_computed_tokens=request.num_computed_tokens,
                num_known_tokens=request.num_tokens,
                new_block_ids=tuple(self.new_block_ids.get(request.request_id, ())),
            )
            trace.add(event)
