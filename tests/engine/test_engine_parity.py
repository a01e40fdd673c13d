"""The whole engine against transformers: the same greedy tokens, however the work is cut up."""

import random
from functools import cache

import pytest
from checkpoints import VARIANTS, greedy_reference

from minivllm import LLM, SamplingParams

BLOCK_SIZE = 8
NUM_NEW = 14
GREEDY = SamplingParams(temperature=0, max_tokens=NUM_NEW, ignore_eos=True)
PROMPT_LENS = (1, 7, 8, 9, 16, 17, 33, 5)

CROWD_SETTINGS = {
    "unlimited": {},
    "budget 1": {"max_num_batched_tokens": 1},
    "budget 3": {"max_num_batched_tokens": 3},
    "budget B-1": {"max_num_batched_tokens": BLOCK_SIZE - 1},
    "budget B": {"max_num_batched_tokens": BLOCK_SIZE},
    "budget B+1": {"max_num_batched_tokens": BLOCK_SIZE + 1},
    "three at once": {"max_num_seqs": 3},
    "no chunks": {"enable_chunked_prefill": False, "max_num_batched_tokens": 64},
    "no prefix cache": {"enable_prefix_caching": False},
    "block size 1": {"block_size": 1, "num_blocks": 400},
    "block size 64": {"block_size": 64, "num_blocks": 40},
}


def make_prompts():
    rng = random.Random(0)
    return [[rng.randrange(256) for _ in range(length)] for length in PROMPT_LENS]


@cache
def expected_tokens(folder):
    return [greedy_reference(folder, prompt, NUM_NEW) for prompt in make_prompts()]


ENGINES = {
    "reference": {"attention_backend": "reference"},
    "sdpa": {"attention_backend": "sdpa"},
    "sdpa in flight": {"attention_backend": "sdpa", "async_scheduling": True},
}


def build(folder, engine, **settings):
    keywords = {"block_size": BLOCK_SIZE, "num_blocks": 64, "max_model_len": 64, **settings}
    return LLM(str(folder), device="cpu", dtype="float32", **ENGINES[engine], **keywords)


def tokens_of(outputs):
    return [list(output.outputs[0].token_ids) for output in outputs]


@pytest.fixture(params=VARIANTS)
def folder(request, tiny_checkpoint):
    return tiny_checkpoint(request.param)


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


def test_each_prompt_alone_equals_transformers(folder, engine):
    llm = build(folder, engine)
    alone = [llm.generate([prompt], GREEDY, use_tqdm=False)[0] for prompt in make_prompts()]
    assert tokens_of(alone) == expected_tokens(folder)


@pytest.mark.parametrize("name", CROWD_SETTINGS)
def test_a_crowd_of_eight_equals_transformers(folder, engine, name):
    llm = build(folder, engine, **CROWD_SETTINGS[name])
    assert tokens_of(llm.generate(make_prompts(), GREEDY, use_tqdm=False)) == expected_tokens(
        folder
    )


def test_preempted_requests_equal_transformers(folder, engine):
    llm = build(folder, engine, num_blocks=12)

    outputs = llm.generate(make_prompts(), GREEDY, use_tqdm=False)

    assert sum(output.metrics.num_preemptions for output in outputs) > 0
    assert tokens_of(outputs) == expected_tokens(folder)


def test_prefix_hits_equal_transformers(folder, engine):
    llm = build(folder, engine)
    first = llm.generate(make_prompts(), GREEDY, use_tqdm=False)

    again = llm.generate(make_prompts(), GREEDY, use_tqdm=False)

    hits = [output.metrics.num_cached_tokens for output in again]
    # At least one token is left to compute; only full blocks hit.
    assert hits == [(length - 1) // BLOCK_SIZE * BLOCK_SIZE for length in PROMPT_LENS]
    assert tokens_of(again) == tokens_of(first) == expected_tokens(folder)


def test_a_prompt_that_continues_an_answer_hits_blocks_filled_while_decoding(folder, engine):
    llm = build(folder, engine)
    prompt, expected = make_prompts()[4], expected_tokens(folder)[4]
    llm.generate([prompt], GREEDY, use_tqdm=False)

    continued = prompt + expected[:10]
    params = SamplingParams(temperature=0, max_tokens=NUM_NEW - 10, ignore_eos=True)
    output = llm.generate([continued], params, use_tqdm=False)[0]

    assert output.metrics.num_cached_tokens == 24  # 16 of the prompt, 8 of the answer
    assert list(output.outputs[0].token_ids) == expected[10:]
