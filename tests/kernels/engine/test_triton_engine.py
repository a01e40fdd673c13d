"""The engine with attention_backend="triton": step by step, captured, and with one in flight."""

import random

import pytest
import torch
from checkpoints import greedy_reference

from minivllm import LLM, ConfigError, Parts, SamplingParams
from minivllm.worker.device_graph import CaptureError
from minivllm.worker.recorded_graph import RecordedGraph

NUM_NEW = 4
GREEDY = SamplingParams(temperature=0, max_tokens=NUM_NEW, ignore_eos=True)
PROMPTS = [[random.Random(length).randrange(256) for _ in range(length)] for length in (9, 1, 8)]

CAPTURED = {"attention_backend": "triton", "parts": Parts(graph=RecordedGraph)}
MODES = {
    "eager": {"attention_backend": "triton"},
    "captured": CAPTURED,
    "captured in flight": {**CAPTURED, "async_scheduling": True},
}
SETTINGS = {
    "crowd": {},
    "chunks": {"max_num_batched_tokens": 5},
    "single tokens": {"max_num_batched_tokens": 1},
    "two at once": {"max_num_seqs": 2},
}


def build(folder, **settings):
    keywords = {"block_size": 8, "num_blocks": 16, "max_model_len": 32, "max_num_seqs": 3}
    return LLM(str(folder), device="cpu", **{**keywords, **settings})


def tokens(llm, params=GREEDY, prompts=PROMPTS):
    outputs = llm.generate(prompts, params, use_tqdm=False)
    return [list(output.outputs[0].token_ids) for output in outputs]


def count_replays(llm):
    """How many rows take part in each replay of a graph from now on."""
    graphs, num_rows = llm.engine.core.executor.worker.runner.graphs, []
    run = graphs.run

    def counted(batch, rows):
        num_rows.append(len(rows))
        return run(batch, rows)

    graphs.run = counted
    return num_rows


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        *(("captured in flight", name) for name in SETTINGS),
        ("captured", "chunks"),
        ("eager", "crowd"),
        ("eager", "chunks"),
    ],
)
def test_tokens_equal_transformers(small_checkpoint, mode, name):
    folder = small_checkpoint("qwen3")
    llm = build(folder, **MODES[mode], **SETTINGS[name])
    assert tokens(llm) == [greedy_reference(folder, prompt, NUM_NEW) for prompt in PROMPTS]


@pytest.mark.parametrize("mode", MODES)
def test_prefix_hits_equal_transformers(small_checkpoint, mode):
    folder = small_checkpoint("qwen3")
    llm = build(folder, **MODES[mode])
    expected = greedy_reference(folder, PROMPTS[0], NUM_NEW)
    for num_cached in (0, 8):
        (output,) = llm.generate([PROMPTS[0]], GREEDY, use_tqdm=False)
        assert output.metrics.num_cached_tokens == num_cached
        assert list(output.outputs[0].token_ids) == expected


@pytest.mark.parametrize("mode", ["eager", "captured in flight"])
def test_preempted_requests_equal_transformers(small_checkpoint, mode):
    folder = small_checkpoint("qwen3")
    llm = build(folder, **MODES[mode], num_blocks=3)
    prompts = [PROMPTS[2][:7], PROMPTS[2][1:]]
    params = SamplingParams(temperature=0, max_tokens=5, ignore_eos=True)
    assert tokens(llm, params, prompts) == [greedy_reference(folder, p, 5) for p in prompts]
    assert llm.stats().num_preemptions > 0


@pytest.mark.parametrize("variant", ["qwen2", "llama", "mistral-window"])
def test_captured_steps_of_every_family_equal_transformers(small_checkpoint, variant):
    folder = small_checkpoint(variant)
    llm = build(folder, **MODES["captured in flight"])
    assert tokens(llm) == [greedy_reference(folder, prompt, NUM_NEW) for prompt in PROMPTS]


RULES = {
    "seeds": [SamplingParams(temperature=1.0, seed=i, max_tokens=NUM_NEW) for i in range(3)],
    "filters": [
        SamplingParams(temperature=1.0, seed=1, top_p=0.8, max_tokens=NUM_NEW),
        SamplingParams(temperature=1.0, seed=2, max_tokens=NUM_NEW),
        SamplingParams(temperature=0, max_tokens=NUM_NEW - 1, logprobs=2),
    ],
    "rules": [
        SamplingParams(temperature=1.0, seed=1, presence_penalty=2.0, max_tokens=NUM_NEW),
        SamplingParams(temperature=0, min_tokens=3, max_tokens=NUM_NEW),
        SamplingParams(temperature=1.0, seed=3, max_tokens=2, prompt_logprobs=1),
    ],
}


@pytest.mark.parametrize(
    ("mode", "name"), [*(("captured in flight", name) for name in RULES), ("captured", "filters")]
)
def test_sampled_tokens_of_captured_steps_equal_those_of_another_backend(
    small_checkpoint, mode, name
):
    folder = small_checkpoint("qwen3")
    expected = tokens(build(folder, attention_backend="sdpa"), RULES[name])
    assert tokens(build(folder, **MODES[mode]), RULES[name]) == expected


def test_decode_steps_run_as_graphs_and_steps_with_chunks_do_not(small_checkpoint):
    llm = build(small_checkpoint("qwen3"), **MODES["captured"])
    num_rows = count_replays(llm)
    tokens(llm)
    assert num_rows == [3] * (NUM_NEW - 1)


def test_a_sampler_of_ones_own_is_asked_for_each_token_of_a_graph(small_checkpoint):
    calls = []

    class LeastLikely:
        def __call__(self, logits, metadata):
            calls.append(len(logits))
            return logits.argmin(-1)

    folder = small_checkpoint("qwen3")
    expected = tokens(build(folder, attention_backend="sdpa", parts=Parts(sampler=LeastLikely)))
    calls.clear()
    llm = build(
        folder, attention_backend="triton", parts=Parts(sampler=LeastLikely, graph=RecordedGraph)
    )
    num_rows = count_replays(llm)
    assert tokens(llm) == expected
    assert calls == [3] * NUM_NEW
    assert num_rows == [3] * (NUM_NEW - 1)


@pytest.mark.parametrize("settings", [{"enforce_eager": True}, {"attention_backend": "sdpa"}])
def test_nothing_is_captured_where_it_must_not_or_cannot_be(small_checkpoint, settings):
    folder = small_checkpoint("qwen3")
    llm = build(folder, **{**CAPTURED, **settings})
    assert llm.engine.core.executor.worker.runner.graphs is None
    assert tokens(llm) == [greedy_reference(folder, prompt, NUM_NEW) for prompt in PROMPTS]


def test_requests_survive_a_step_that_fails_between_replays(small_checkpoint):
    folder = small_checkpoint("qwen3")
    llm = build(folder, **MODES["captured in flight"])
    graphs, num_calls = llm.engine.core.executor.worker.runner.graphs, [0]
    run = graphs.run

    def failing(batch, rows):
        num_calls[0] += 1
        if num_calls[0] == 2:
            raise RuntimeError("boom")
        return run(batch, rows)

    graphs.run = failing
    for number, prompt in enumerate(PROMPTS):
        llm.engine.add_request(str(number), prompt, GREEDY)
    found, num_errors = {}, 0
    while llm.engine.has_unfinished_requests():
        try:
            found.update({output.request_id: output for output in llm.engine.step()})
        except RuntimeError:
            num_errors += 1
    assert num_errors == 1
    assert [list(found[str(i)].outputs[0].token_ids) for i in range(3)] == [
        greedy_reference(folder, prompt, NUM_NEW) for prompt in PROMPTS
    ]


@pytest.mark.parametrize("rehearses", [True, False])
def test_memory_that_runs_out_in_a_capture_is_an_error_that_names_the_knobs(
    small_checkpoint, rehearses
):
    class Full(RecordedGraph):
        def _record(self, step):
            full = torch.OutOfMemoryError("CUDA out of memory")
            if rehearses:
                raise full
            raise CaptureError("CUDA refused an operation") from full

    settings = {**CAPTURED, "parts": Parts(graph=Full)}
    with pytest.raises(ConfigError, match=r"cpu ran out.*gpu_memory_utilization.*enforce_eager"):
        build(small_checkpoint("qwen3"), **settings)


def test_another_error_of_a_capture_stays_what_it_is(small_checkpoint):
    class Refusing(RecordedGraph):
        def _record(self, step):
            raise CaptureError("no")

    with pytest.raises(CaptureError, match="no"):
        build(small_checkpoint("qwen3"), **{**CAPTURED, "parts": Parts(graph=Refusing)})
