"""Statistics against a count by hand: a step takes one second by the clock of these tests.

Blocks hold 4 tokens.
"""

import time

import pytest

from minivllm import LLM, RequestError, SamplingParams
from minivllm.outputs import RequestMetrics


class Clock:
    """Stands still, but for the model's runs: each takes a second."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def tick_with(self, llm):
        executor = llm.engine.core.executor
        run = executor.execute_model

        def execute_model(plan):
            self.now += 1
            return run(plan)

        executor.execute_model = execute_model


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


@pytest.fixture
def build(tiny_checkpoint, clock):
    def build(**settings):
        folder = str(tiny_checkpoint("qwen3"))
        keywords = {"block_size": 4, "num_blocks": 16, "max_model_len": 64, **settings}
        llm = LLM(folder, device="cpu", **keywords)
        clock.tick_with(llm)
        return llm

    return build


def params(max_tokens, **more):
    return SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True, **more)


def generate(llm, prompts, *max_tokens):
    return llm.generate(prompts, [params(number) for number in max_tokens], use_tqdm=False)


PROMPT = list(range(5, 14))  # 9 tokens: two blocks can be hit


def test_nothing_has_happened_yet(build):
    stats = build().stats()
    assert (stats.num_finished_requests, stats.num_steps, stats.seconds) == (0, 0, 0)
    assert (stats.prefix_hit_rate, stats.output_tokens_per_second) == (0, 0)
    assert (stats.time_to_first_token, stats.time_per_output_token) == (None, None)
    assert (stats.kv_usage, stats.peak_kv_usage) == (0, 0)


def test_one_request(build):
    llm = build()
    (output,) = generate(llm, [PROMPT], 4)  # a prefill and 3 decodes; 9 + 3 tokens in 3 blocks
    stats = llm.stats()
    assert (stats.num_prompt_tokens, stats.num_cached_tokens, stats.num_output_tokens) == (9, 0, 4)
    assert (stats.num_finished_requests, stats.num_steps, stats.seconds) == (1, 4, 4)
    assert (stats.prompt_tokens_per_second, stats.output_tokens_per_second) == (9 / 4, 4 / 4)
    assert (stats.time_to_first_token, stats.time_per_output_token) == (1, 1)
    assert (stats.kv_usage, stats.peak_kv_usage) == (0, 3 / 16)
    metrics = output.metrics
    assert (metrics.time_to_first_token, metrics.time_per_output_token) == (1, 1)
    assert (metrics.latency, metrics.num_output_tokens) == (4, 4)


def test_sums_go_on_over_calls_and_the_second_finds_the_prefix(build):
    llm = build()
    generate(llm, [PROMPT], 4)
    (output,) = generate(llm, [PROMPT], 2)
    assert output.metrics.num_cached_tokens == 8
    stats = llm.stats()
    assert (stats.num_prompt_tokens, stats.num_cached_tokens) == (18, 8)
    assert stats.prefix_hit_rate == 8 / 18
    assert (stats.num_output_tokens, stats.num_steps) == (6, 6)


def test_idle_time_between_calls_does_not_count(build, clock):
    llm = build()
    generate(llm, [PROMPT], 2)
    clock.now += 3600
    generate(llm, [PROMPT], 2)
    assert llm.stats().seconds == 4
    assert llm.stats().time_to_first_token == 1


def test_after_a_reset_of_the_prefix_cache_nothing_is_hit_and_the_sums_stay(build):
    llm = build()
    generate(llm, [PROMPT], 1)
    assert llm.reset_prefix_cache()
    generate(llm, [PROMPT], 1)
    stats = llm.stats()
    assert (stats.num_prompt_tokens, stats.num_cached_tokens) == (18, 0)
    assert (stats.num_finished_requests, stats.num_steps) == (2, 2)


def test_a_waiting_request_waits_for_its_first_token(build):
    llm = build(max_num_seqs=1)
    outputs = generate(llm, [[1, 2, 3], [4, 5, 6]], 3, 2)
    assert [output.metrics.time_to_first_token for output in outputs] == [1, 4]
    assert [output.metrics.latency for output in outputs] == [3, 5]
    assert llm.stats().time_to_first_token == 2.5


def test_a_chunked_prompt_gives_its_first_token_after_the_last_chunk(build):
    llm = build(max_num_batched_tokens=4)
    (output,) = generate(llm, [PROMPT], 1)  # 4 + 4 + 1
    assert output.metrics.time_to_first_token == 3
    assert output.metrics.time_per_output_token is None
    assert llm.stats().num_prompt_tokens == 9


def test_preemptions_and_a_full_cache(build):
    """Two requests of 7 + 4 tokens need 3 blocks each; the second gives way, and starts over."""
    llm = build(num_blocks=4)
    outputs = generate(llm, [[1, 2, 3, 4, 5, 6, 7], [11, 12, 13, 14, 15, 16, 17]], 4, 4)
    assert [output.metrics.num_preemptions for output in outputs] == [0, 1]
    stats = llm.stats()
    assert (stats.num_preemptions, stats.peak_kv_usage, stats.kv_usage) == (1, 1, 0)
    assert stats.num_steps == 6
    assert (stats.num_prompt_tokens, stats.num_cached_tokens) == (14, 0), "not its own blocks"
    assert outputs[1].metrics.time_per_output_token == 5 / 3  # tokens after 1, 2, 5 and 6 seconds
    assert stats.time_per_output_token == (1 + 5 / 3) / 2


def test_usage_now_is_that_of_running_requests(build):
    llm = build()
    llm.engine.add_request("a", PROMPT, params(8))
    llm.engine.step()
    assert llm.stats().kv_usage == 3 / 16
    assert llm.stats().num_finished_requests == 0
    llm.engine.abort("a")
    assert llm.stats().kv_usage == 0


def test_an_aborted_request_counts_with_what_it_did(build, clock):
    llm = build()
    generate(llm, [PROMPT], 1)
    llm.engine.add_request("a", PROMPT, params(8))
    for _ in range(3):
        llm.engine.step()
    clock.now += 100
    (output,) = llm.engine.abort("a")
    metrics = output.metrics
    assert (metrics.num_output_tokens, metrics.num_cached_tokens) == (3, 8)
    assert (metrics.time_per_output_token, metrics.latency) == (1, 103)
    stats = llm.stats()
    assert (stats.num_finished_requests, stats.num_output_tokens) == (2, 4)
    assert (stats.num_prompt_tokens, stats.num_cached_tokens) == (18, 8)
    assert (stats.time_to_first_token, stats.time_per_output_token) == (1, 1)


def test_a_request_aborted_before_it_ran_has_no_times(build):
    llm = build()
    llm.engine.add_request("a", PROMPT, params(8))
    (output,) = llm.engine.abort("a")
    assert (output.metrics.time_to_first_token, output.metrics.time_per_output_token) == (None,) * 2
    stats = llm.stats()
    assert (stats.num_finished_requests, stats.num_prompt_tokens) == (1, 0)
    assert stats.time_to_first_token is None


def test_a_refused_request_does_not_count(build):
    llm = build(num_blocks=2)
    with pytest.raises(RequestError):
        llm.engine.add_request("a", PROMPT, params(8))
    assert llm.stats().num_finished_requests == 0


def test_continuations_of_one_prompt_each_look_it_up(build):
    llm = build()
    sampled = SamplingParams(n=3, max_tokens=2, ignore_eos=True)
    (output,) = llm.generate([PROMPT], sampled, use_tqdm=False)
    assert output.metrics.num_output_tokens == 2
    assert output.metrics.time_per_output_token == 1
    stats = llm.stats()
    assert (stats.num_prompt_tokens, stats.num_cached_tokens) == (27, 16)
    assert (stats.num_finished_requests, stats.num_output_tokens) == (1, 6)


def test_metrics_of_a_running_request():
    metrics = RequestMetrics(arrival_time=1.0, first_token_time=3.0, last_token_time=3.0)
    assert (metrics.time_to_first_token, metrics.latency) == (2, None)
    assert metrics.time_per_output_token is None
