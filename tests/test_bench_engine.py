"""The benchmarks measure what they say: the steps and requests are those of the workload."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from minivllm.bench import ceilings, latency, mixed, prefix, throughput
from minivllm.bench.adapter import build, find_adapter
from minivllm.bench.floors import Ceilings, Chunk, ModelWork
from minivllm.bench.latency import W2, Batches, decode_step_seconds, run_latency
from minivllm.bench.mixed import TokenClock, gap_floor, measure_gaps, run_mixed
from minivllm.bench.prefix import run_prefix
from minivllm.bench.qwen3_shape import QWEN3_SHAPE
from minivllm.bench.report import Spread
from minivllm.bench.throughput import W1, Workload, run_throughput, shifted
from minivllm.errors import ConfigError
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams
from minivllm.trace import RequestFinished, RequestScheduled

SETTINGS = {"load_format": "dummy", "device": "cpu", "dtype": "float32"}
DUMMY = {"model": "dummy-qwen3", **SETTINGS}
CEILINGS = Ceilings(copy=4.3e12, read=4.5e12, matmul=700e12)

FAKE_ADAPTER = """
class Engine:
    name = "fake 1.0"

    def __init__(self, settings):
        self.calls, self.is_closed, self.settings = [], False, settings

    def generate(self, prompts, generations):
        self.calls.append((prompts, generations))
        return [[0] * each.num_tokens for each in generations]

    def close(self):
        self.is_closed = True

built = []

def build(folder, settings):
    built.append(Engine(settings))
    return built[-1]
"""


@pytest.fixture
def fake(tmp_path):
    """Another engine, found by the path of its adapter."""
    file = tmp_path / "fake.py"
    file.write_text(FAKE_ADAPTER)
    return find_adapter(str(file))


@pytest.fixture
def on_a_gpu(monkeypatch):
    """The reports have floors, as if a GPU had been measured."""
    monkeypatch.setattr(ceilings, "measure_ceilings", lambda device: CEILINGS)
    monkeypatch.setattr(
        ceilings, "resolve_device", lambda name: SimpleNamespace(type="cuda", index=0)
    )
    monkeypatch.setattr(ceilings, "resolve_dtype", lambda *_: SimpleNamespace(itemsize=2))


def params(generation):
    return SamplingParams(temperature=0, ignore_eos=True, max_tokens=generation.num_tokens)


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
    prompts, output_lens = W1.draw()
    assert (sum(map(len, prompts)), sum(output_lens)) == (142_827, 133_966)
    assert max(map(max, prompts)) == 10_000


def test_throughput_counts_the_tokens_of_all_requests():
    report = run_throughput(
        build, "dummy-qwen3", SETTINGS, Workload(num_prompts=3, lengths=(2, 5)), num_runs=2
    )
    prompts, output_lens = Workload(num_prompts=3, lengths=(2, 5)).draw(258)
    (row,) = report.rows
    seconds = row["seconds"]
    assert row["engine"].startswith("minivllm ")
    assert report.settings["prompt tokens"] == sum(map(len, prompts))
    assert row["new tokens/s"].max == pytest.approx(sum(output_lens) / seconds.min)
    total = sum(map(len, prompts)) + sum(output_lens)
    assert row["all tokens/s"].min == pytest.approx(total / seconds.max)


def test_another_engine_runs_the_public_workload(fake, on_a_gpu):
    report = run_throughput(fake, QWEN3_SHAPE, {**SETTINGS, "max_model_len": 4096}, W1, num_runs=2)
    engine = fake.__globals__["built"][0]
    warm_up, first, second = engine.calls
    prompts, output_lens = W1.draw()
    assert first[0] == prompts
    assert [list(map(len, call[0])) for call in (warm_up, second)] == [list(map(len, prompts))] * 2
    assert not {tuple(p) for p in second[0]} & {tuple(p) for p in [*prompts, *warm_up[0]]}
    assert [each.num_tokens for each in first[1]] == output_lens
    assert {each.temperature for each in first[1]} == {0.6}
    assert (engine.is_closed, engine.settings["max_model_len"]) == (True, 4096)
    ours, *recorded = report.rows
    assert (ours["engine"], report.settings["copy"]) == ("fake 1.0", "4,300 GB/s")
    # performance figures that were measured before: the floor is 3.69 s, and 36,297 tokens/s
    assert ours["floor, ms"] == pytest.approx(3690, rel=0.005)
    assert ours["x floor"].median == pytest.approx(1e3 * ours["seconds"].median / ours["floor, ms"])
    assert recorded[0]["new tokens/s"] == pytest.approx(21_607, rel=1e-3)
    assert {tuple(row) for row in recorded} == {tuple(ours)}


def test_prompts_of_another_run_have_other_tokens_and_the_same_lengths():
    assert shifted([[0, 1], [9]], by=2, vocab_size=10) == [[2, 3], [1]]
    assert shifted([[0, 1], [9]], by=0, vocab_size=10) == [[0, 1], [9]]


@pytest.mark.parametrize("name", ["nothing", "no/such/file.py"])
def test_an_adapter_that_is_not_there_is_a_user_s_mistake(name):
    with pytest.raises(ConfigError, match=r"has no adapter .* use minivllm, nano_vllm, transf"):
        find_adapter(name)


def test_an_engine_that_is_not_installed_is_a_user_s_mistake(tmp_path):
    (tmp_path / "absent.py").write_text("import a_package_that_is_not_there")
    with pytest.raises(ConfigError, match="not installed here: No module named 'a_package"):
        find_adapter(str(tmp_path / "absent.py"))


def test_transformers_generates_as_many_tokens_as_are_asked_for():
    report = run_latency(
        find_adapter("transformers"),
        "dummy-qwen3",
        SETTINGS,
        Batches(sizes=(2,), input_len=4, output_len=3),
        num_runs=1,
    )
    assert report.rows[0]["engine"].startswith("transformers ")


def test_a_step_is_the_time_of_all_tokens_less_the_first_over_the_steps_between(monkeypatch):
    times = iter([0.0, 3.0, 10.0, 21.0])  # the first token takes 3 s, all five 11 s
    monkeypatch.setattr(throughput, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    calls = []

    def generate(prompts, generations):
        calls.append([each.num_tokens for each in generations])
        return [[0] * each.num_tokens for each in generations]

    engine = SimpleNamespace(generate=generate)
    assert decode_step_seconds(engine, [[1], [2]], num_tokens=5) == (11 - 3) / 4
    assert calls == [[1, 1], [5, 5]]


def test_an_engine_that_generates_too_little_is_not_measured():
    engine = SimpleNamespace(generate=lambda prompts, generations: [[0]] * len(prompts))
    with pytest.raises(AssertionError, match="tokens that were asked for"):
        decode_step_seconds(engine, [[1], [2]], num_tokens=5)


def test_latency_decodes_all_requests_of_a_batch_together():
    batches = Batches(sizes=(3,), input_len=8, output_len=5)
    limits = {**SETTINGS, **batches.limits}
    with LLM("dummy-qwen3", **limits, trace=True) as llm:
        prompts = [[i] * 8 for i in range(3)]
        engine = SimpleNamespace(
            generate=lambda p, g: [
                out.outputs[0].token_ids
                for out in llm.generate(p, [params(each) for each in g], use_tqdm=False)
            ]
        )
        decode_step_seconds(engine, prompts, batches.output_len)
        assert plans(llm) == [[8, 8, 8], [8, 8, 8], *[[1, 1, 1]] * 4]


def test_latency_has_a_row_for_each_batch_size(fake, on_a_gpu):
    report = run_latency(fake, QWEN3_SHAPE, SETTINGS, W2, num_runs=2)
    ours, recorded = report.rows[:4], report.rows[4:]
    assert [row["batch"] for row in ours] == [1, 8, 32, 128]
    assert [row["floor, ms"] for row in ours] == pytest.approx(
        [0.287, 0.359, 0.605, 1.588], abs=1e-3
    )
    assert report.settings["max_num_batched_tokens"] == 128 * 128
    assert [row["ms per step"] for row in recorded[:4]] == [1.76, 2.12, 2.80, 4.58]
    assert recorded[3]["tokens/s"] == pytest.approx(128 / 4.58e-3)
    assert {tuple(row) for row in recorded} == {tuple(ours[0])}


def test_prefix_cache_hits_all_shared_blocks_and_none_without(on_a_gpu):
    settings = {**DUMMY, "num_blocks": 64}
    report = run_prefix(settings, num_prompts=3, num_shared_tokens=32, num_repeats=2)
    off, on = report.rows
    assert (off["prefix cache"], off["hit rate"]) == ("off", "0.0%")
    # The last block of 16 always has a token that must be computed.
    assert (on["prefix cache"], on["hit rate"]) == ("on", f"{32 / 48:.1%}")
    assert on["requests"] == off["requests"] == 6
    assert {"floor, ms", "x floor"} < on.keys() == off.keys()


def test_a_hit_has_a_lower_floor_than_a_miss(qwen3_work):
    miss, hit = (prefix.first_token_floor(qwen3_work, CEILINGS, 16_384, n) for n in (0, 16_384))
    num_tokens = 16_400
    flops = num_tokens * 880_803_840 + num_tokens**2 / 2 * 229_376
    assert miss == pytest.approx(flops / 700e12)  # arithmetic: 65 ms
    assert hit == pytest.approx((1_191_968_768 + 16_384 * 114_688) / 4.3e12)  # bytes: 0.7 ms


@pytest.fixture
def qwen3_work():
    """Of Qwen3-0.6B in 16 bits."""
    return ModelWork(
        weight_bytes=1_191_968_768,
        token_bytes=114_688,
        token_flops=880_803_840,
        pair_flops=229_376,
    )


def test_the_shape_of_qwen3_has_its_known_size(qwen3_work):
    with latency.model_folder(QWEN3_SHAPE) as folder:
        arch, work, found = ceilings.model_and_ceilings(folder, SETTINGS | {"dtype": "bfloat16"})
        assert arch.vocab_size == 151_936
    assert (work, found) == (qwen3_work, None)  # a CPU has no ceilings
    assert work.weight_bytes // 2 == pytest.approx(596e6, rel=0.01)  # of 0.6 billion


def test_a_step_takes_the_larger_of_its_bytes_and_its_arithmetic():
    work = ModelWork(weight_bytes=100, token_bytes=10, token_flops=7, pair_flops=2)
    speeds = Ceilings(copy=1.0, read=1.0, matmul=1.0)
    assert work.step_seconds(speeds, contexts=[3, 4]) == 100 + 70
    assert work.chunk_flops(Chunk(4, 5)) == 4 * 7 + 2 * (4 * 5 + 8)
    assert work.step_seconds(speeds, [Chunk(40)]) == 40 * 7 + 2 * 800
    assert work.step_seconds(speeds, [Chunk(1, 6)], [3]) == 100 + 90


def test_the_floor_of_a_gap_is_that_of_the_costliest_step():
    work = ModelWork(weight_bytes=0, token_bytes=0, token_flops=1, pair_flops=2)
    speeds = Ceilings(copy=1.0, read=1.0, matmul=1.0)
    assert gap_floor(work, speeds, 2, 10, None) == 10 + 10 * 10
    # Chunks of 4, 4 and 2: the second one costs most, 4 tokens after 4 others.
    assert gap_floor(work, speeds, 2, 10, 6) == 4 + 2 * (16 + 8)


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


def test_mixed_has_a_row_without_chunking_and_one_for_each_budget(on_a_gpu):
    report = run_mixed(DUMMY, num_decodes=2, prompt_len=24, budgets=(8, 16), num_runs=1)
    assert [row["budget"] for row in report.rows] == ["not chunked", 8, 16]
    first, second, _ = report.rows
    ratio = second["longest gap, ms"].median / first["longest gap, ms"].median
    assert [first["ratio"], second["ratio"]] == ["1.00 x", f"{ratio:.2f} x"]
    assert report.settings["decodes"] == 2
    assert all(row["x floor"].median > 1 for row in report.rows)


@pytest.mark.parametrize("budget", [None, 3, 64])
def test_no_decode_ends_and_none_is_preempted_while_the_long_prompt_comes(budget):
    limits = mixed._limits(num_decodes=2, prompt_len=24, budget=budget)
    with LLM(**DUMMY, **limits, trace=True) as llm:
        measure_gaps(llm, num_decodes=2, prompt_len=24)
        kinds = Counter(type(event).__name__ for event in llm.trace.events)
        assert kinds["RequestPreempted"] == 0
        assert "length" not in {
            e.finish_reason for e in llm.trace.events if isinstance(e, RequestFinished)
        }
        assert max(map(sum, plans(llm))) <= limits["max_num_batched_tokens"]
        if budget is None:
            assert sorted([1, 1, 24]) in plans(llm)


def test_a_budget_that_the_decodes_use_up_is_refused():
    with pytest.raises(ConfigError, match="budget of 4"):
        run_mixed(DUMMY, num_decodes=4, prompt_len=24, budgets=(64, 4))
