"""Decode steps as CUDA graphs, in the engine: eager's results, nothing written, nothing added."""

import gc

import pytest
import torch
from gpu_engines import (
    DEVICE,
    GRAPH_MODES,
    GREEDY,
    NUM_NEW,
    TRITON_MODES,
    build,
    expected_tokens,
    generate,
    make_prompts,
    runner_of,
    tokens,
)

from minivllm import SamplingParams

pytestmark = pytest.mark.gpu


def some_params(num_requests):
    """Greedy and random rows in turn, each with a length of its own: the batch shrinks."""
    return [
        SamplingParams(temperature=(i % 3) / 2, seed=i, max_tokens=3 + 5 * i % 7, ignore_eos=True)
        for i in range(num_requests)
    ]


@pytest.mark.parametrize("max_num_seqs", [1, 5, 17])
@pytest.mark.parametrize("mode", GRAPH_MODES)
def test_every_batch_size_gives_what_eager_steps_give(checkpoint, mode, max_num_seqs):
    folder = checkpoint("qwen3")
    captured, eager = (build(folder, m, max_num_seqs=max_num_seqs) for m in (mode, "eager"))
    for num_requests in range(1, max_num_seqs + 1):
        prompts = make_prompts([1 + 3 * i % 11 for i in range(num_requests)], seed=num_requests)
        found, expected = (
            tokens(generate(llm, prompts, some_params(num_requests))) for llm in (captured, eager)
        )
        assert found == expected


def poison(llm):
    """Fill the whole cache with NaN."""
    for pages in runner_of(llm).kv_caches:
        pages.key.fill_(torch.nan)
        pages.value.fill_(torch.nan)


def num_written(llm):
    """Slots of each layer's keys and values that hold anything but NaN."""
    pages = [side for pair in runner_of(llm).kv_caches for side in pair]
    return {int((~side.isnan()).flatten(2).any(-1).sum()) for side in pages}


@pytest.mark.parametrize("num_requests", [1, 3, 5, 9])
@pytest.mark.parametrize("mode", TRITON_MODES)
def test_only_slots_of_computed_tokens_are_written_and_no_other_is_read(
    checkpoint, mode, num_requests
):
    folder = checkpoint("qwen3")
    llm = build(folder, mode, enable_prefix_caching=False)
    poison(llm)
    prompts = make_prompts()[:num_requests]

    outputs = generate(llm, prompts)

    assert tokens(outputs) == expected_tokens(folder)[:num_requests]
    # All that was fed: the last token of each was only sampled. No block was used twice.
    assert num_written(llm) == {sum(map(len, prompts)) + num_requests * (NUM_NEW - 1)}


@pytest.mark.parametrize("mode", GRAPH_MODES)
def test_logits_of_padding_rows_are_finite(checkpoint, mode):
    llm = build(checkpoint("qwen3"), mode)
    poison(llm)
    graphs, seen = runner_of(llm).graphs, []
    run = graphs.run

    def watched(batch, rows):
        logits = run(batch, rows)
        seen.append((len(logits), len(rows), bool(logits.isfinite().all())))
        return logits

    graphs.run = watched
    generate(llm, make_prompts((9, 1, 20)))
    assert {(4, 3)} <= {(num_captured, num_rows) for num_captured, num_rows, _ in seen}
    assert all(is_finite for *_, is_finite in seen)


@pytest.mark.parametrize("mode", GRAPH_MODES)
def test_decode_steps_do_run_as_graphs_and_eager_ones_do_not(checkpoint, mode):
    assert runner_of(build(checkpoint("qwen3"), "eager")).graphs is None
    llm = build(checkpoint("qwen3"), mode)
    graphs, num_replays = runner_of(llm).graphs, []
    run = graphs.run
    graphs.run = lambda batch, rows: num_replays.append(len(rows)) or run(batch, rows)
    generate(llm, make_prompts((9, 4)))
    assert num_replays == [2] * (NUM_NEW - 1)


@pytest.fixture
def compiled(monkeypatch):
    """Names of the kernels that Triton compiles (or loads) from now on, a variant each."""
    import triton

    names = []
    monkeypatch.setattr(
        triton.knobs.runtime,
        "jit_post_compile_hook",
        lambda **details: names.append(details["fn"].name),
    )
    return names


def run(llm, prompt_lens, num_tokens):
    params = SamplingParams(temperature=0.7, seed=1, max_tokens=num_tokens, ignore_eos=True)
    generate(llm, make_prompts(prompt_lens), params)


def test_the_hook_sees_a_kernel_of_a_new_size(compiled):
    from minivllm.kernels.rms_norm import rms_norm

    for _ in range(2):
        rms_norm(torch.ones(2, 1237, device=DEVICE), torch.ones(1237, device=DEVICE), 1e-6)
    assert compiled == ["_rms_norm"]


# Each of these has a block size of its own: variants of other tests are in this process already.
@pytest.mark.parametrize("mode", GRAPH_MODES)
def test_no_kernel_is_compiled_in_a_long_run(checkpoint, compiled, mode):
    llm = build(checkpoint("qwen3"), mode, max_model_len=256, block_size=32)
    run(llm, (3, 4, 5, 6, 7), 4)
    compiled.clear()
    for num_requests in (5, 2, 1, 4):
        run(llm, (3, 4, 5, 6, 7)[:num_requests], 240)
    assert compiled == []


def test_eager_steps_compile_nothing_once_a_longest_sequence_was_there(checkpoint, compiled):
    llm = build(checkpoint("qwen3"), "eager", max_model_len=256, block_size=128)
    run(llm, (3, 4, 5, 6, 7), 200)
    compiled.clear()
    for num_requests in (5, 2, 1, 4):
        run(llm, (3, 4, 5, 6, 7)[:num_requests], 190)
    assert compiled == []


@pytest.mark.parametrize("mode", TRITON_MODES)
def test_no_kernel_is_compiled_for_another_number_of_decodes_before_a_prompt(
    checkpoint, compiled, mode
):
    llm = build(
        checkpoint("llama"),
        mode,
        block_size=32,
        max_num_batched_tokens=16,
        enable_prefix_caching=False,
    )
    run(llm, (1, 40), 8)
    compiled.clear()
    for num_decodes in (2, 3, 4, 5):
        run(llm, [1] * num_decodes + [40], 8)
    assert compiled == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mode", TRITON_MODES)
def test_the_same_batch_twice_gives_the_same_tokens(checkpoint, mode, dtype):
    llm = build(checkpoint("qwen3"), mode, dtype=dtype, enable_prefix_caching=False)
    assert tokens(generate(llm, make_prompts())) == tokens(generate(llm, make_prompts()))


@pytest.mark.parametrize("mode", TRITON_MODES)
def test_fifty_calls_take_no_more_memory_than_one(checkpoint, mode):
    llm = build(checkpoint("qwen3"), mode)
    params = [GREEDY, *some_params(8)]

    def memory():
        generate(llm, make_prompts(), params)
        gc.collect()
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()

    memory()
    before = memory()
    for _ in range(50):
        after = memory()
    assert after[0] <= before[0]
    assert after[1] <= before[1]


def test_an_engine_that_is_dropped_gives_its_memory_back(checkpoint):
    def allocated():
        gc.collect()
        return torch.cuda.memory_allocated()

    def use_one():
        generate(build(checkpoint("qwen3"), "in_flight", num_blocks=2**16), make_prompts((5,)))

    use_one()  # workspaces of cuBLAS stay
    before = allocated()
    use_one()
    assert allocated() <= before
