"""The engine on a CUDA device: the same tokens as transformers, and a cache sized from memory."""

import pytest
import torch
from checkpoints import VARIANTS, greedy_reference, save_tiny

from minivllm import LLM, ConfigError, SamplingParams
from minivllm.sample.random import uniform

pytestmark = pytest.mark.gpu

GREEDY = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
PROMPTS = [[7], [1, 2, 3, 4, 5, 6, 7, 8], list(range(33)), [9] * 17, [4, 5]]


def build(folder, **settings):
    keywords = {"dtype": "float32", "block_size": 8, "num_blocks": 64, "max_model_len": 64}
    return LLM(str(folder), device="cuda", **{**keywords, **settings})


def tokens(outputs):
    return [list(output.outputs[0].token_ids) for output in outputs]


@pytest.mark.parametrize("backend", ["reference", "sdpa"])
@pytest.mark.parametrize("settings", [{}, {"max_num_batched_tokens": 5}, {"num_blocks": 9}])
@pytest.mark.parametrize("variant", VARIANTS)
def test_float32_on_cuda_equals_transformers_on_the_cpu(tmp_path, variant, settings, backend):
    folder = save_tiny(VARIANTS[variant](), tmp_path / variant)
    llm = build(folder, attention_backend=backend, **settings)
    expected = [greedy_reference(folder, prompt, 12) for prompt in PROMPTS]

    first = llm.generate(PROMPTS, GREEDY, use_tqdm=False)
    again = llm.generate(PROMPTS, GREEDY, use_tqdm=False)

    assert tokens(first) == tokens(again) == expected


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_backends_agree_on_the_first_tokens(tmp_path, dtype):
    folder = save_tiny(VARIANTS["qwen3"](), tmp_path / "qwen3")
    first_tokens = [
        [row[0] for row in tokens(llm.generate(PROMPTS, GREEDY, use_tqdm=False))]
        for llm in (
            build(folder, dtype=dtype, attention_backend=backend)
            for backend in ("reference", "sdpa")
        )
    ]
    assert first_tokens[0] == first_tokens[1]


def test_random_numbers_are_the_same_on_both_devices():
    seeds, positions = torch.tensor([3, 2**62, 0]), torch.tensor([0, 17, 2**31])
    on_cpu = uniform(seeds, positions, 5000)
    on_cuda = uniform(seeds.cuda(), positions.cuda(), 5000)
    assert torch.equal(on_cpu, on_cuda.cpu())


def test_seeded_sampling_draws_the_same_tokens_on_both_devices(tmp_path):
    folder = save_tiny(VARIANTS["llama"](), tmp_path / "llama")
    params = SamplingParams(temperature=1.0, top_k=40, top_p=0.9, seed=5, ignore_eos=True)
    on_cpu = LLM(str(folder), device="cpu", num_blocks=64).generate(PROMPTS, params, use_tqdm=False)
    assert tokens(build(folder).generate(PROMPTS, params, use_tqdm=False)) == tokens(on_cpu)


def test_the_cache_takes_the_share_of_total_memory_that_is_left(tmp_path):
    folder = save_tiny(VARIANTS["qwen3"](), tmp_path / "qwen3")
    free_before, total = torch.cuda.mem_get_info()
    share = 0.5

    llm = build(folder, num_blocks=None, gpu_memory_utilization=share)

    num_blocks = llm.engine.core.kv_cache_manager.pool.num_blocks
    cache_bytes = num_blocks * llm.engine.core.executor.worker.bytes_per_block
    expected = total * share - (total - free_before)
    assert 0.9 * expected < cache_bytes <= expected
    assert tokens(llm.generate(PROMPTS, GREEDY, use_tqdm=False)) == [
        greedy_reference(folder, prompt, 12) for prompt in PROMPTS
    ]


def test_memory_that_others_use_is_not_counted_as_ours(tmp_path):
    folder = save_tiny(VARIANTS["qwen3"](), tmp_path / "qwen3")
    _, total = torch.cuda.mem_get_info()
    tenant = torch.empty(int(total * 0.2), dtype=torch.uint8, device="cuda")
    with pytest.raises(ConfigError, match=r"gpu_memory_utilization=0\.1 leaves 0 bytes"):
        build(folder, num_blocks=None, gpu_memory_utilization=0.1)
    del tenant
