"""A step that fails, or is interrupted, at any place: nothing is lost, and the next call works."""

import pytest
from checkpoints import greedy_reference

from minivllm import LLM, EngineDeadError, SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
PROMPTS = [[5, 6, 7, 8, 9, 10, 11], [1, 2, 3], [5, 6, 7, 8, 9, 10, 11]]


@pytest.fixture
def folder(tiny_checkpoint):
    return tiny_checkpoint("qwen3")


@pytest.fixture(params=[False, True], ids=["in turn", "in flight"])
def llm(folder, request):
    return LLM(
        str(folder),
        device="cpu",
        block_size=4,
        num_blocks=32,
        max_model_len=64,
        max_num_batched_tokens=5,
        async_scheduling=request.param,
    )


class FailOnce:
    """Calls through, but raises on the call with number `at`."""

    def __init__(self, call, error, at):
        self.call, self.error, self.left = call, error, at

    def __call__(self, *args, **kwargs):
        self.left -= 1
        if self.left == -1:
            raise self.error
        return self.call(*args, **kwargs)


def fail_in(llm, place, error, at):
    """Let one call inside a step fail: in the planner, the worker, or the bookkeeping."""
    runner = llm.engine.core.executor.worker.runner
    owner, name = {
        "schedule": (llm.engine.core.scheduler, "schedule"),
        "allocate": (llm.engine.core.kv_cache_manager, "allocate_slots"),
        "rows": (runner.input_batch, "update"),
        "model": (runner.model, "forward"),
        "sampler": (runner, "sampler"),
        "update": (llm.engine.core.scheduler, "update_from_output"),
    }[place]
    setattr(owner, name, FailOnce(getattr(owner, name), error, at))


PLACES = ["schedule", "allocate", "rows", "model", "sampler", "update"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", [RuntimeError("boom"), KeyboardInterrupt()])
def test_generate_passes_the_error_on_and_the_next_call_works(llm, folder, place, error):
    fail_in(llm, place, error, at=2)

    with pytest.raises(type(error)):
        llm.generate(PROMPTS, GREEDY, use_tqdm=False)

    assert not llm.engine.has_unfinished_requests()
    llm.engine.core.kv_cache_manager.check()
    assert llm.engine.core.kv_cache_manager.usage == 0
    outputs = llm.generate(PROMPTS, GREEDY, use_tqdm=False)
    assert [list(output.outputs[0].token_ids) for output in outputs] == [
        greedy_reference(folder, prompt, 6) for prompt in PROMPTS
    ]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("at", [0, 1, 4])
def test_requests_survive_a_failed_step(llm, folder, place, at):
    """With `step` in their own hands, users can go on after the error."""
    for number, prompt in enumerate(PROMPTS):
        llm.engine.add_request(str(number), prompt, GREEDY)
    fail_in(llm, place, RuntimeError("boom"), at)

    outputs, num_errors = {}, 0
    while llm.engine.has_unfinished_requests():
        try:
            outputs.update({output.request_id: output for output in llm.engine.step()})
        except RuntimeError:
            num_errors += 1
        llm.engine.core.kv_cache_manager.check()

    assert num_errors == 1
    assert [list(outputs[str(number)].outputs[0].token_ids) for number in range(3)] == [
        greedy_reference(folder, prompt, 6) for prompt in PROMPTS
    ]


def test_an_engine_that_cannot_recover_says_so(llm):
    executor = llm.engine.core.executor
    fail_in(llm, "model", RuntimeError("boom"), 0)
    executor.reset = FailOnce(executor.reset, RuntimeError("worse"), 0)

    with pytest.raises(RuntimeError, match="worse"):
        llm.generate(PROMPTS, GREEDY, use_tqdm=False)
    with pytest.raises(EngineDeadError, match="build a new LLM"):
        llm.generate(PROMPTS, GREEDY, use_tqdm=False)


def test_a_scheduler_that_runs_nothing_is_an_error_and_not_a_hang(llm):
    llm.engine.core.scheduler._admit_waiting = lambda plan: None
    with pytest.raises(RuntimeError, match="nothing to run"):
        llm.generate(PROMPTS, GREEDY, use_tqdm=False)
