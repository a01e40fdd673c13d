"""What the engine itself adds to the trace: the pool's size, each step's time, failed steps."""

import pytest

from minivllm import LLM, SamplingParams
from minivllm.trace import BlockFreed, StepExecuted, StepFailed, load_trace, save_trace
from minivllm.trace.replay import phases, pool_states

PARAMS = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [11, 12, 13, 14, 15, 16, 17]]


@pytest.fixture
def build(tiny_checkpoint):
    def build(**settings):
        folder = str(tiny_checkpoint("qwen3"))
        keywords = {"block_size": 4, "num_blocks": 4, "max_model_len": 16, **settings}
        return LLM(folder, device="cpu", **keywords)

    return build


def events(llm, kind):
    return [event for event in llm.trace.events if isinstance(event, kind)]


def test_the_trace_knows_the_pool(build):
    trace = build(trace=True).trace
    assert (trace.num_blocks, trace.block_size) == (4, 4)


def test_without_tracing_there_is_no_trace(build):
    llm = build()
    llm.generate(PROMPTS, PARAMS, use_tqdm=False)
    assert llm.trace is None


def test_each_step_is_recorded_with_queues_and_cache_as_it_ran(build):
    llm = build(trace=True)
    llm.generate(PROMPTS, PARAMS, use_tqdm=False)
    steps = events(llm, StepExecuted)
    assert [(e.step, e.num_running, e.num_waiting, e.kv_usage) for e in steps] == [
        (0, 2, 0, 1.0),
        (1, 2, 0, 1.0),
        (2, 1, 1, 0.75),  # the second gave way
        (3, 1, 1, 0.75),
        (4, 1, 0, 0.75),
        (5, 1, 0, 0.75),
    ]
    pool = pool_states(llm.trace)
    assert [pool[event.step].num_used / 4 for event in steps] == [e.kv_usage for e in steps]


def test_steps_follow_each_other_in_time(build):
    llm = build(trace=True)
    llm.generate(PROMPTS, PARAMS, use_tqdm=False)
    end = 0.0
    for event in events(llm, StepExecuted):
        assert event.start >= end
        assert event.seconds > 0
        end = event.start + event.seconds


def test_a_failed_step_is_recorded_and_its_requests_start_over(build):
    llm = build(trace=True)
    llm.engine.add_request("a", PROMPTS[0], PARAMS)
    llm.engine.step()
    executor = llm.engine.core.executor
    run, executor.execute_model = executor.execute_model, lambda plan: 1 / 0
    with pytest.raises(ZeroDivisionError):
        llm.engine.step()
    executor.execute_model = run
    while llm.engine.has_unfinished_requests():
        llm.engine.step()
    assert events(llm, StepFailed) == [StepFailed(step=1)]
    assert [event.step for event in events(llm, StepExecuted)] == [0, 2, 3, 4]
    assert phases(llm.trace)["a"] == {
        0: "prefill",
        1: "decode",
        2: "prefill",
        3: "decode",
        4: "decode",
    }
    assert pool_states(llm.trace)[2].num_used == 2
    assert {event.step for event in events(llm, BlockFreed)} == {4}


def test_the_trace_of_a_run_survives_a_file(build, tmp_path):
    llm = build(trace=True)
    llm.generate(PROMPTS, PARAMS, use_tqdm=False)
    save_trace(llm.trace, tmp_path / "trace.jsonl")
    assert load_trace(tmp_path / "trace.jsonl") == llm.trace
