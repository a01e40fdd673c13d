"""The benchmarks measure what they say: the steps and requests are those of the workload."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from minivllm.bench import mixed
from minivllm.bench.latency import decode_step_seconds, run_latency
from minivllm.bench.mixed import TokenClock, measure_gaps, run_mixed
from minivllm.bench.prefix import run_prefix
from minivllm.bench.report import Spread
from minivllm.bench.throughput import draw_workload, run_throughput
from minivllm.errors import ConfigError
from minivllm.llm import LLM
from minivllm.trace import RequestFinished, RequestScheduled

DUMMY = {"model": "dummy-qwen3", "load_format": "dummy", "device": "cpu"}


def plans(llm):
    """For each step, how many tokens each request computed, sorted."""
    by_step = {}
    for event in llm.trace.events:
        if isinstance(event, RequestScheduled):
            by_step.setdefault(event.step, []).append(event.num_tokens)
    return [sorted(tokens) for _, tokens in sorted(by_step.items())]


def test_spread_is_median_and_ends():
    assert Spread.of([0.003, 0.001, 0.002], scale=1e3) == Spread(2.0, 1.0, 3.0)


def test_the_public_workload_is_drawn_as_published():
    prompts, output_lens = draw_workload(256, (100, 1024), 10_000)
    assert (sum(map(len, prompts)), sum(output_lens)) == (142_827, 133_966)
    assert max(map(max, prompts)) <= 10_000


def test_throughput_counts_the_tokens_of_all_requests():
    report = run_throughput(DUMMY, 3, (2, 5), num_runs=2)
    prompts, output_lens = draw_workload(3, (2, 5), 258)
    (row,) = report.rows
    seconds = row["seconds"]
    assert report.settings["prompt tokens"] == sum(map(len, prompts))
    assert row["new tokens/s"].max == pytest.approx(sum(output_lens) / seconds.min)
    total = sum(map(len, prompts)) + sum(output_lens)
    assert row["all tokens/s"].min == pytest.approx(total / seconds.max)


def test_latency_measures_decode_steps_only():
    limits = {"max_num_batched_tokens": 24, "max_model_len": 16, "enable_prefix_caching": False}
    with LLM(**DUMMY, **limits, trace=True) as llm:
        assert decode_step_seconds(llm, batch_size=3, input_len=8, num_steps=4) > 0
        assert plans(llm) == [[8, 8, 8], *[[1, 1, 1]] * 4]
        assert not llm.engine.has_unfinished_requests()


def test_latency_has_a_row_for_each_batch_size():
    report = run_latency(DUMMY, (1, 3), input_len=4, output_len=2, num_runs=2)
    assert [row["batch"] for row in report.rows] == [1, 3]
    for row in report.rows:
        per_second = 1e3 * row["batch"] / row["ms per step"].median
        assert row["tokens/s"].min <= per_second * 1.001
        assert row["tokens/s"].max >= per_second * 0.999


def test_prefix_cache_hits_all_shared_blocks_and_none_without():
    report = run_prefix(DUMMY, num_prompts=3, num_shared_tokens=32, num_repeats=2)
    off, on = report.rows
    assert (off["prefix cache"], off["hit rate"]) == ("off", "0.0%")
    # One prompt of 48 tokens warms up and misses. Then 6 hit 32: the last block of 16 always has a
    # token that must be computed.
    assert (on["prefix cache"], on["hit rate"]) == ("on", f"{6 * 32 / (7 * 48):.1%}")
    assert on["requests"] == off["requests"] == 6


def test_clock_gives_the_gap_since_each_request_s_last_token(monkeypatch):
    steps = iter([["a"], ["a", "b"], ["b"], ["a", "b"]])
    times = iter([1.0, 3.0, 4.0, 8.0])
    engine = SimpleNamespace(step=lambda: [SimpleNamespace(request_id=i) for i in next(steps)])
    monkeypatch.setattr(mixed, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    clock = TokenClock(SimpleNamespace(engine=engine))
    assert [clock.step() for _ in range(4)] == [[], [2.0], [1.0], [5.0, 4.0]]
    assert clock.last_times == {"a": 8.0, "b": 8.0}


@pytest.mark.parametrize(("budget", "chunks"), [(None, [32]), (12, [10, 10, 10, 2])])
def test_a_long_prompt_arrives_among_decodes(budget, chunks):
    limits = {"max_num_batched_tokens": budget, "max_model_len": 64}
    limits |= {"enable_chunked_prefill": budget is not None, "enable_prefix_caching": False}
    with LLM(**DUMMY, **limits, trace=True) as llm:
        gaps = measure_gaps(llm, num_decodes=2, prompt_len=32)
        after_quiet = plans(llm)[-len(chunks) :]
        ends = Counter(e.finish_reason for e in llm.trace.events if isinstance(e, RequestFinished))
        assert not llm.engine.has_unfinished_requests()
    assert after_quiet == [sorted([1, 1, chunk]) for chunk in chunks]
    assert ends == {"abort": 3}  # none of the decodes ended before the long prompt was done
    assert 0 < gaps.longest <= gaps.first_token * 1.5


def test_mixed_has_a_row_without_chunking_and_one_for_each_budget():
    report = run_mixed(DUMMY, num_decodes=2, prompt_len=24, budgets=(8, 16), num_runs=1)
    assert [row["budget"] for row in report.rows] == ["not chunked", 8, 16]
    assert report.settings["decodes"] == 2


def test_a_budget_that_the_decodes_use_up_is_refused():
    with pytest.raises(ConfigError, match="budget of 4"):
        run_mixed(DUMMY, num_decodes=4, prompt_len=24, budgets=(64, 4))
