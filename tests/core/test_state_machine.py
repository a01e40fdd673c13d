"""Any sequence of adds, aborts, steps, failures and resets leaves the planner right.

The checks are `helpers/planner.py`'s; here hypothesis chooses what happens, and shrinks what fails.
"""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from in_flight_planner import InFlightHarness
from planner import PlannerHarness, PlannerSettings

from minivllm.config import SchedulingPolicy
from minivllm.sampling_params import SamplingParams

REQUEST_IDS = [f"r{i}" for i in range(12)]  # few, so that ids are used again
SHARED = random.Random(0).choices(range(6), k=48)  # what prompts have in common

sampling_params = st.builds(
    SamplingParams,
    temperature=st.just(0.0),
    max_tokens=st.one_of(st.none(), st.integers(1, 12)),
    stop_token_ids=st.lists(st.integers(0, 5), max_size=1),
    ignore_eos=st.booleans(),
)


class FirstComeFirstServed(RuleBasedStateMachine):
    """The rules; every step checks the whole state."""

    policy: SchedulingPolicy = "fcfs"
    harness_class: type[PlannerHarness] = PlannerHarness
    harness: PlannerHarness

    @initialize(seed=st.integers(0, 2**20))
    def start(self, seed: int) -> None:
        drawn = PlannerSettings.draw(random.Random(seed))
        self.harness = self.harness_class(replace(drawn, policy=self.policy))

    @rule(
        num_shared=st.integers(0, 47),
        tail=st.lists(st.integers(0, 5), max_size=4),
        params=sampling_params,
        priority=st.integers(-1, 1),
        request_id=st.sampled_from(REQUEST_IDS),
    )
    def add(
        self,
        num_shared: int,
        tail: list[int],
        params: SamplingParams,
        priority: int,
        request_id: str,
    ) -> None:
        longest = self.harness.settings.max_model_len - 1
        prompt = (SHARED[:num_shared] + tail)[:longest] or [0]
        self.harness.add(prompt, params, priority, request_id)

    @precondition(lambda self: self.harness.live)
    @rule(data=st.data(), num_output=st.integers(0, 8))
    def add_continuation(self, data: st.DataObject, num_output: int) -> None:
        """A prompt that is another request's prompt and output, as in a chat."""
        other = self.harness.live[data.draw(st.sampled_from(sorted(self.harness.live)))]
        length = other.request.num_prompt_tokens + num_output
        prompt = other.request.token_ids[: min(length, self.harness.settings.max_model_len - 1)]
        request_id = data.draw(st.sampled_from(REQUEST_IDS))
        self.harness.add(prompt, SamplingParams(max_tokens=4), 0, request_id)

    @rule(request_ids=st.lists(st.sampled_from(REQUEST_IDS), max_size=3))
    def abort(self, request_ids: list[str]) -> None:
        self.harness.abort(request_ids)

    @rule(num_steps=st.integers(1, 6))
    def step(self, num_steps: int) -> None:
        for _ in range(num_steps):
            self.harness.step()

    @rule()
    def drain(self) -> None:
        self.harness.drain()

    @rule()
    def reset_prefix_cache(self) -> None:
        self.harness.reset_prefix_cache()

    @rule(where=st.sampled_from(["schedule", "execute", "update"]), num_lines=st.integers(0, 400))
    def fail(self, where: str, num_lines: int) -> None:
        self.harness.fail_step(where, num_lines)

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.harness.drain()


class ByPriority(FirstComeFirstServed):
    """The same, under the other policy."""

    policy = "priority"


class OneInFlight(FirstComeFirstServed):
    """The same, each step planned before the tokens of the one before are known."""

    harness_class = InFlightHarness

    @rule(enters_early=st.booleans())
    def change_the_order(self, enters_early: bool) -> None:
        """From now on tokens are entered before the next plan, or after it."""
        assert isinstance(self.harness, InFlightHarness)
        self.harness.enters_early = enters_early


class OneInFlightByPriority(OneInFlight):
    """And under the other policy."""

    policy = "priority"


TestFirstComeFirstServed = FirstComeFirstServed.TestCase
TestByPriority = ByPriority.TestCase
TestOneInFlight = OneInFlight.TestCase
TestOneInFlightByPriority = OneInFlightByPriority.TestCase
TestOneInFlight.settings = TestOneInFlightByPriority.settings = settings(max_examples=400)
