"""Draws on the GPU are the CPU's, in every mode and beside any others; so are log-probabilities."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from gpu_engines import (
    GRAPH_MODES,
    MODES,
    NUM_NEW,
    PROMPT_LENS,
    alone,
    build,
    build_on_cpu,
    generate,
    make_prompts,
    tokens,
)

from minivllm import SamplingParams
from minivllm.counter_random import uniform

pytestmark = pytest.mark.gpu


def params(number, **settings):
    keywords = {"temperature": 1.0, "seed": number, "max_tokens": NUM_NEW, "ignore_eos": True}
    return SamplingParams(**{**keywords, **settings})


def plain_params():
    """Temperatures alone, which a graph draws by itself; some rows are greedy."""
    temperatures = (1.0, 0.0, 0.3, 1.5, 0.01, 0.0, 0.8, 2.0, 1.0)
    return [params(i, temperature=t) for i, t in enumerate(temperatures)]


FILTERS = [
    {"top_k": 5},
    {},
    {"top_p": 0.8},
    {"min_p": 0.1},
    {"temperature": 0.0},
    {"top_k": 40, "top_p": 0.9, "min_p": 0.02, "temperature": 1.3},
    {"temperature": 0.0, "top_p": 0.5},
    {"temperature": 0.5},
    {"top_k": 1},
]
RULES = [
    {"repetition_penalty": 1.3},
    {},
    {"temperature": 0.0, "presence_penalty": 1.5},
    {"frequency_penalty": 0.7, "top_p": 0.9},
    {"logit_bias": {65: 4.0, 66: -100.0}},
    {"temperature": 0.0},
    {"temperature": 0.0, "repetition_penalty": 0.8, "frequency_penalty": 0.3},
    {"min_tokens": 5},
    {"top_k": 20},
]
KINDS = {
    "plain": plain_params,
    "filters_beside_plain": lambda: [params(i, **each) for i, each in enumerate(FILTERS)],
    "rules_beside_plain": lambda: [params(i, **each) for i, each in enumerate(RULES)],
    # no chance for two kinds to lead to the same path
    "all_filtered": lambda: [params(i, top_k=9, top_p=0.9) for i in range(len(PROMPT_LENS))],
    "all_min_p": lambda: [params(i, min_p=0.05) for i in range(len(PROMPT_LENS))],
}


@cache
def expected_tokens(folder, kind):
    """Of the CPU, each prompt alone."""
    return tokens(alone(build_on_cpu(folder), make_prompts(), KINDS[kind]()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
def test_a_crowd_draws_what_each_draws_alone_on_the_cpu(checkpoint, mode, kind):
    folder = checkpoint("llama")
    llm = build(folder, mode, max_num_batched_tokens=40)
    assert tokens(generate(llm, make_prompts(), KINDS[kind]())) == expected_tokens(folder, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
def test_alone_and_beside_other_mates_draws_are_the_cpus(checkpoint, mode, kind):
    folder, prompts, each = checkpoint("qwen3"), make_prompts(), KINDS[kind]()
    expected, llm = expected_tokens(folder, kind), build(folder, mode)
    assert tokens(alone(llm, prompts, each)) == expected
    for chosen in ([8, 0, 3], [7, 6, 5, 4, 2], [1, 2]):
        found = generate(llm, [prompts[i] for i in chosen], [each[i] for i in chosen])
        assert tokens(found) == [expected[i] for i in chosen]


@pytest.mark.parametrize("mode", MODES)
def test_preempted_draws_are_the_cpus(checkpoint, mode):
    folder = checkpoint("qwen2")
    llm = build(folder, mode, num_blocks=14)
    outputs = generate(llm, make_prompts(), KINDS["filters_beside_plain"]())
    assert sum(output.metrics.num_preemptions for output in outputs) > 0
    assert tokens(outputs) == expected_tokens(folder, "filters_beside_plain")


@pytest.mark.parametrize("mode", MODES)
def test_without_a_seed_the_engines_own_gives_the_same_on_both_devices(checkpoint, mode):
    folder, unseeded = checkpoint("mistral"), params(None)
    expected = tokens(generate(build_on_cpu(folder), make_prompts(), unseeded))
    assert tokens(generate(build(folder, mode), make_prompts(), unseeded)) == expected


def with_logprobs():
    """Some rows of the mixture report log-probabilities, of output or prompt or both."""
    each = KINDS["filters_beside_plain"]()
    each[1] = replace(each[1], logprobs=4)
    each[4] = replace(each[4], logprobs=0, prompt_logprobs=2)
    each[6] = replace(each[6], prompt_logprobs=0)
    each[8] = replace(each[8], logprobs=2)
    return each


def numbers(places):
    """Token ids and log-probabilities of a list of dicts, in order."""
    pairs = [pair for place in places or [] for pair in (place or {}).items()]
    return [token_id for token_id, _ in pairs], torch.tensor([value.logprob for _, value in pairs])


def assert_same_logprobs(found, expected):
    assert tokens(found) == tokens(expected)
    num_compared = 0
    for one, other in zip(found, expected, strict=True):
        for mine, theirs in (
            (one.outputs[0].logprobs, other.outputs[0].logprobs),
            (one.prompt_logprobs, other.prompt_logprobs),
        ):
            (ids, values), (expected_ids, expected_values) = numbers(mine), numbers(theirs)
            assert ids == expected_ids
            torch.testing.assert_close(values, expected_values, atol=1e-4, rtol=0)
            num_compared += len(ids)
    assert num_compared > 100


def test_logprobs_of_eager_steps_are_the_cpus(checkpoint):
    folder = checkpoint("qwen3")
    expected = generate(build_on_cpu(folder), make_prompts(), with_logprobs())
    assert_same_logprobs(
        generate(build(folder, "eager"), make_prompts(), with_logprobs()), expected
    )


@pytest.mark.parametrize("mode", [*GRAPH_MODES, "sdpa_in_flight"])
def test_logprobs_are_those_of_eager_steps(checkpoint, mode):
    folder = checkpoint("qwen3")
    expected = generate(build(folder, "eager"), make_prompts(), with_logprobs())
    assert_same_logprobs(generate(build(folder, mode), make_prompts(), with_logprobs()), expected)


def test_random_numbers_are_the_same_on_both_devices():
    seeds, positions = torch.tensor([3, 2**62, 0]), torch.tensor([0, 17, 2**31])
    on_cpu = uniform(seeds, positions, 5000)
    on_cuda = uniform(seeds.cuda(), positions.cuda(), 5000)
    assert torch.equal(on_cpu, on_cuda.cpu())
