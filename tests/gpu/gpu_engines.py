"""Tiny engines on the GPU, in each way that a step can run there, and what they must agree with."""

import random
from functools import cache

from checkpoints import greedy_reference

from minivllm import LLM, SamplingParams

DEVICE = "cuda"

IN_TURN = {"async_scheduling": False}
MODES = {
    "eager": {"attention_backend": "triton", "enforce_eager": True, **IN_TURN},
    "graphs": {"attention_backend": "triton", **IN_TURN},
    "in_flight": {"attention_backend": "triton", "async_scheduling": True},
    "sdpa_in_flight": {"attention_backend": "sdpa", "async_scheduling": True},
    "reference": {"attention_backend": "reference", **IN_TURN},
}
TRITON_MODES = ["eager", "graphs", "in_flight"]
GRAPH_MODES = ["graphs", "in_flight"]

NUM_NEW = 12
GREEDY = SamplingParams(temperature=0, max_tokens=NUM_NEW, ignore_eos=True)
PROMPT_LENS = (1, 7, 8, 9, 16, 17, 33, 5, 70)


def build(folder, mode, **settings):
    """A float32 engine; its blocks are small and few, and so are its graphs."""
    keywords = {
        "dtype": "float32",
        "block_size": 8,
        "num_blocks": 128,
        "max_model_len": 128,
        "max_num_seqs": 16,
    }
    return LLM(str(folder), device=DEVICE, **{**keywords, **MODES[mode], **settings})


def build_on_cpu(folder):
    return LLM(str(folder), device="cpu", dtype="float32", num_blocks=64, max_model_len=128)


def runner_of(llm):
    return llm.engine.core.executor.worker.runner


def make_prompts(lens=PROMPT_LENS, seed=0):
    rng = random.Random(seed)
    return [[rng.randrange(256) for _ in range(length)] for length in lens]


def tokens(outputs):
    return [list(output.outputs[0].token_ids) for output in outputs]


def generate(llm, prompts, params=GREEDY):
    return llm.generate(prompts, params, use_tqdm=False)


def alone(llm, prompts, params=GREEDY):
    """The output of each prompt, the next one coming when the last has ended."""
    each = params if isinstance(params, list) else [params] * len(prompts)
    return [generate(llm, [one], param)[0] for one, param in zip(prompts, each, strict=True)]


@cache
def expected_tokens(folder):
    """The greedy tokens of transformers, on the CPU."""
    return [greedy_reference(folder, prompt, NUM_NEW) for prompt in make_prompts()]
