"""The worker on the GPU: how large its cache is, what it says when it does not fit, who waits."""

import gc

import pytest
import torch
from gpu_engines import (
    DEVICE,
    TRITON_MODES,
    build,
    expected_tokens,
    generate,
    make_prompts,
    runner_of,
    tokens,
)

from minivllm import ConfigError, SamplingParams

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _memory_is_given_back():
    """Before a test and after it: PyTorch would keep what engines of this process have freed."""
    gc.collect()
    torch.cuda.empty_cache()
    yield
    gc.collect()
    torch.cuda.empty_cache()


@pytest.fixture
def seen_memory(monkeypatch):
    """What the driver has said of free and total memory; other processes use it meanwhile."""
    ask, answers = torch.cuda.mem_get_info, []
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda *args: answers.append(ask(*args)) or answers[-1]
    )
    return answers


def test_the_cache_takes_the_share_of_total_memory_that_is_left(checkpoint, seen_memory):
    folder, share = checkpoint("qwen3"), 0.6

    # blocks of many tokens, as each is an object on the host
    llm = build(folder, "in_flight", num_blocks=None, block_size=256, gpu_memory_utilization=share)

    num_blocks = llm.engine.core.kv_cache_manager.pool.num_blocks
    cache_bytes = num_blocks * llm.engine.core.executor.worker.bytes_per_block
    free, total = seen_memory[-1]
    most = total * share - (total - free)
    assert most - 2**28 < cache_bytes <= most  # a step of the tiny model takes some megabytes
    assert tokens(generate(llm, make_prompts())) == expected_tokens(folder)


def test_what_a_step_takes_is_kept_free(checkpoint, monkeypatch):
    free, total = 6 * 2**30, 8 * 2**30
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, total))

    def cache_bytes(budget):
        llm = build(
            checkpoint("qwen3"),
            "eager",
            num_blocks=None,
            block_size=256,
            gpu_memory_utilization=0.5,
            max_num_batched_tokens=budget,
            max_num_seqs=1024,
        )
        worker = llm.engine.core.executor.worker
        return llm.engine.core.kv_cache_manager.pool.num_blocks * worker.bytes_per_block

    small, large = cache_bytes(16), cache_bytes(2**16)
    assert small <= total // 2 - (total - free)
    assert small - large > 2**16 * 1024  # a token's row of 160 gates and ups, and more


def test_memory_that_others_use_is_not_counted_as_ours(checkpoint):
    _, total = torch.cuda.mem_get_info()
    tenant = torch.empty(int(total * 0.02), dtype=torch.uint8, device=DEVICE)
    with pytest.raises(ConfigError, match=r"gpu_memory_utilization=0\.01 leaves 0 bytes"):
        build(checkpoint("qwen3"), "eager", num_blocks=None, gpu_memory_utilization=0.01)
    del tenant


@pytest.fixture
def little_memory():
    """A twentieth of the GPU for this process: the rest belongs to the other tests."""
    torch.cuda.set_per_process_memory_fraction(0.05)
    yield torch.cuda.mem_get_info()[1] // 20
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.parametrize("share_of_layers", [0.6, 10.0])  # enough for one of three, or for none
def test_too_many_blocks_are_an_error_that_names_them_and_leave_nothing(
    checkpoint, little_memory, share_of_layers
):
    folder = checkpoint("qwen3")
    llm = build(folder, "graphs")
    layer_bytes = llm.engine.core.executor.worker.bytes_per_block // 3
    too_many = int(share_of_layers * little_memory) // layer_bytes
    before = torch.cuda.memory_allocated()

    with pytest.raises(ConfigError, match=f"cache of {too_many} blocks takes .* lower num_blocks"):
        build(folder, "graphs", num_blocks=too_many)

    gc.collect()
    assert torch.cuda.memory_allocated() <= before + 2**20
    assert tokens(generate(llm, make_prompts())) == expected_tokens(folder)


PARAMS = {
    "greedy": {"temperature": 0},
    "temperature": {"temperature": 0.8, "seed": 3},
    "filters": {"top_k": 20, "top_p": 0.9, "min_p": 0.01, "seed": 3},
    "penalties": {"temperature": 0, "repetition_penalty": 1.2, "frequency_penalty": 0.5},
}


def kind_of(num_tokens):
    """What a step consists of: decodes, prompts (or chunks), or both."""
    if set(num_tokens) == {1}:
        return "decodes"
    return "mixed" if 1 in num_tokens else "prompts"


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("mode", TRITON_MODES)
def test_starting_a_step_never_waits_for_the_device(checkpoint, mode, params):
    llm = build(checkpoint("qwen3"), mode, max_num_batched_tokens=20)
    runner, prompts = runner_of(llm), make_prompts()
    each = SamplingParams(max_tokens=12, ignore_eos=True, **PARAMS[params])
    expected = tokens(generate(llm, prompts, each))  # compiles, and makes what is made once
    assert llm.reset_prefix_cache()
    start, kinds = runner.start, set()

    def watched(plan):
        kinds.add(kind_of(plan.num_scheduled_tokens.values()))
        torch.cuda.set_sync_debug_mode("error")
        try:
            return start(plan)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    runner.start = watched
    assert tokens(generate(llm, prompts, each)) == expected
    assert kinds >= {"decodes", "mixed"}


def test_the_watch_sees_a_host_that_waits():
    x = torch.ones(3, device=DEVICE)
    torch.cuda.set_sync_debug_mode("error")
    try:
        with pytest.raises(RuntimeError, match="synchroniz"):
            x.tolist()
    finally:
        torch.cuda.set_sync_debug_mode("default")
