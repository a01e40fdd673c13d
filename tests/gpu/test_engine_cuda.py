"""Greedy float32 tokens on the GPU are the CPU's and transformers', however the work is cut up."""

import pytest
import torch
from checkpoints import VARIANTS, greedy_reference, save_tiny
from gpu_engines import (
    DEVICE,
    MODES,
    TRITON_MODES,
    alone,
    build,
    build_on_cpu,
    expected_tokens,
    generate,
    make_prompts,
    tokens,
)
from kernel_cases import pairwise

from minivllm import SamplingParams
from minivllm.layers.linear import matmul

pytestmark = pytest.mark.gpu

CROWD_SETTINGS = {
    "unlimited": lambda block_size: {},
    "budget_1": lambda block_size: {"max_num_batched_tokens": 1},
    "budget_3": lambda block_size: {"max_num_batched_tokens": 3},
    "budget_B+1": lambda block_size: {"max_num_batched_tokens": block_size + 1},
    "three_at_once": lambda block_size: {"max_num_seqs": 3},
    "no_chunks": lambda block_size: {
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": 128,
    },
    "no_prefix_cache": lambda block_size: {"enable_prefix_caching": False},
}
TIGHT = {8: 12, 16: 7}  # block size -> blocks, too few for the crowd


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_cpu_engine_equals_transformers(checkpoint, variant):
    folder = checkpoint(variant)
    assert tokens(generate(build_on_cpu(folder), make_prompts())) == expected_tokens(folder)


@pairwise(variant=VARIANTS, mode=MODES, block_size=[8, 256])
def test_each_prompt_alone_equals_transformers(checkpoint, variant, mode, block_size):
    folder = checkpoint(variant)
    llm = build(folder, mode, block_size=block_size)
    assert tokens(alone(llm, make_prompts())) == expected_tokens(folder)


@pairwise(variant=VARIANTS, mode=MODES, block_size=[8, 16, 64, 256], settings=CROWD_SETTINGS)
def test_a_crowd_equals_transformers_twice(checkpoint, variant, mode, block_size, settings):
    folder = checkpoint(variant)
    llm = build(folder, mode, block_size=block_size, **CROWD_SETTINGS[settings](block_size))
    first, again = (tokens(generate(llm, make_prompts())) for _ in range(2))
    assert first == expected_tokens(folder)
    assert again == first


@pairwise(variant=VARIANTS, mode=MODES, block_size=TIGHT, budget=[9, None])
def test_preempted_requests_equal_transformers(checkpoint, variant, mode, block_size, budget):
    folder = checkpoint(variant)
    llm = build(
        folder,
        mode,
        block_size=block_size,
        num_blocks=TIGHT[block_size],
        max_num_batched_tokens=budget,
    )

    outputs = generate(llm, make_prompts())

    assert sum(output.metrics.num_preemptions for output in outputs) > 0
    assert tokens(outputs) == expected_tokens(folder)


@pairwise(variant=VARIANTS, mode=MODES, block_size=[8, 16, 64])
def test_prefix_hits_equal_transformers(checkpoint, variant, mode, block_size):
    folder = checkpoint(variant)
    llm = build(folder, mode, block_size=block_size)
    generate(llm, make_prompts())

    again = generate(llm, make_prompts())

    hits = [output.metrics.num_cached_tokens for output in again]
    assert hits == [(len(p) - 1) // block_size * block_size for p in make_prompts()]
    assert tokens(again) == expected_tokens(folder)


@pytest.mark.parametrize("mode", TRITON_MODES)
def test_heads_narrower_than_the_matrix_unit(tmp_path, mode):
    folder = save_tiny(VARIANTS["llama"](), tmp_path / "narrow")  # head_dim 8
    prompts = make_prompts((9, 1, 17))
    expected = [greedy_reference(folder, prompt, 12) for prompt in prompts]
    assert tokens(generate(build(folder, mode), prompts)) == expected


@pytest.mark.parametrize("num_rows", [1, 5, 64, 300])
def test_float32_products_are_not_rounded_to_tf32(checkpoint, num_rows):
    build(checkpoint("qwen3"), "graphs")  # an engine changes nothing about that
    random = torch.Generator().manual_seed(num_rows)
    x, weight = (torch.randn(n, 1024, generator=random).to(DEVICE) for n in (num_rows, 512))
    exact = x.double() @ weight.double().T
    error = (matmul(x, weight).double() - exact).abs().max()
    assert error < 1e-5 * exact.abs().max()  # TF32, with 10 bits, is off by 1e-4
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_takes_the_first_tokens_that_float32_is_sure_of(checkpoint, mode, dtype):
    folder, prompts = checkpoint("qwen3"), make_prompts(range(1, 31))
    with_two_best = SamplingParams(temperature=0, max_tokens=1, logprobs=2)
    in_float32 = generate(build_on_cpu(folder), prompts, with_two_best)
    in_half = tokens(generate(build(folder, mode, dtype=dtype), prompts))
    num_sure = 0
    for output, found in zip(in_float32, in_half, strict=True):
        best, second, *_ = output.outputs[0].logprobs[0].items()
        if best[1].logprob - second[1].logprob > 0.3:
            num_sure += 1
            assert found[0] == best[0]
    assert num_sure > 9
