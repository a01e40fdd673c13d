"""Log-probabilities, of the output and of the prompt, against transformers."""

import pytest
import torch
from checkpoints import load_reference

from minivllm import LLM, RequestError, SamplingParams

PROMPT = [(7 * i) % 200 for i in range(18)]
TOLERANCE = {"abs": 2e-4, "rel": 2e-4}


def build(folder, **settings):
    keywords = {"block_size": 4, "num_blocks": 64, "max_model_len": 64, **settings}
    return LLM(str(folder), device="cpu", **keywords)


@pytest.fixture(params=["qwen3", "llama"])
def folder(request, tiny_checkpoint):
    return tiny_checkpoint(request.param)


def generate(llm, prompts=(PROMPT,), **params):
    params = SamplingParams(**{"temperature": 0, "max_tokens": 5, "ignore_eos": True, **params})
    return llm.generate(list(prompts), params, use_tqdm=False)


def reference(folder, token_ids):
    """Log-probabilities of each next token; row i is about token i + 1."""
    with torch.inference_mode():
        logits = load_reference(folder)(torch.tensor([token_ids]), use_cache=False).logits[0]
    return logits.double().log_softmax(-1)


def check_entry(entry, token_id, expected, num_top):
    """One place of a text: the token that stands there first, then the most likely ones."""
    assert next(iter(entry)) == token_id
    most_likely = expected.topk(num_top).indices.tolist() if num_top else []
    assert set(entry) == {token_id, *most_likely}
    for each, logprob in entry.items():
        assert logprob.logprob == pytest.approx(float(expected[each]), **TOLERANCE)
        assert logprob.rank == 1 + int((expected > expected[each]).sum())


@pytest.mark.parametrize("num_top", [0, 1, 4])
def test_logprobs_of_the_output_are_those_of_the_raw_logits(folder, num_top):
    params = {"temperature": 1.7, "top_k": 5, "seed": 1, "presence_penalty": 1.0}
    (output,) = generate(build(folder), logprobs=num_top, **params)
    completion = output.outputs[0]
    expected = reference(folder, [*PROMPT, *completion.token_ids])
    assert len(completion.logprobs) == len(completion.token_ids) == 5
    total = 0.0
    for i, (token_id, entry) in enumerate(
        zip(completion.token_ids, completion.logprobs, strict=True)
    ):
        row = expected[len(PROMPT) - 1 + i]
        check_entry(entry, token_id, row, num_top)
        total += float(row[token_id])
    assert completion.cumulative_logprob == pytest.approx(total, abs=1e-3)


CUTS = {
    "at once": {},
    "chunks of 1": {"max_num_batched_tokens": 1},
    "chunks of 5": {"max_num_batched_tokens": 5},
    "no prefix cache": {"enable_prefix_caching": False},
}


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("num_top", [0, 3])
def test_prompt_logprobs_have_a_row_per_token_however_the_prompt_is_cut(folder, name, num_top):
    llm = build(folder, **CUTS[name])
    for _ in range(2):  # the second time the prompt is in the cache
        (output,) = generate(llm, prompt_logprobs=num_top)
        expected = reference(folder, PROMPT)
        assert len(output.prompt_logprobs) == len(PROMPT)
        assert output.prompt_logprobs[0] is None
        for i, entry in enumerate(output.prompt_logprobs[1:]):
            check_entry(entry, PROMPT[i + 1], expected[i], num_top)


def test_a_request_for_prompt_logprobs_reads_no_cache_but_fills_it(folder):
    llm = build(folder)
    generate(llm)
    (asking,) = generate(llm, prompt_logprobs=1)
    (after,) = generate(llm)
    assert asking.metrics.num_cached_tokens == 0
    assert after.metrics.num_cached_tokens == 16
    assert asking.outputs[0].token_ids == after.outputs[0].token_ids


def test_prompt_logprobs_after_a_preemption_are_not_doubled(folder):
    prompts = [[i, *PROMPT] for i in range(4)]
    params = {"prompt_logprobs": 1, "logprobs": 1, "max_tokens": 12}
    calm = generate(build(folder), prompts, **params)
    busy = generate(build(folder, num_blocks=14, max_num_batched_tokens=7), prompts, **params)
    assert sum(output.metrics.num_preemptions for output in busy) > 0
    for one, other in zip(calm, busy, strict=True):
        assert len(other.prompt_logprobs) == len(prompts[0])
        pairs = zip(one.prompt_logprobs[1:], other.prompt_logprobs[1:], strict=True)
        rows = [*pairs, *zip(one.outputs[0].logprobs, other.outputs[0].logprobs, strict=True)]
        for expected, found in rows:
            assert list(expected) == list(found)
            for token_id, logprob in expected.items():
                assert found[token_id].logprob == pytest.approx(logprob.logprob, **TOLERANCE)


def test_a_prompt_of_one_token_has_one_empty_row(folder):
    (output,) = generate(build(folder), [[5]], prompt_logprobs=2)
    assert output.prompt_logprobs == [None]


def test_who_does_not_ask_gets_none(folder):
    params = [SamplingParams(max_tokens=2, logprobs=n, prompt_logprobs=n) for n in (None, 1)]
    without, asking = build(folder).generate([PROMPT] * 2, params, use_tqdm=False)
    completion = without.outputs[0]
    assert (completion.logprobs, completion.cumulative_logprob) == (None, None)
    assert without.prompt_logprobs is None
    assert len(asking.outputs[0].logprobs) == 2
    assert len(asking.prompt_logprobs) == len(PROMPT)


def test_decoded_tokens_are_the_tokens_by_themselves(folder):
    llm = build(folder)
    decode = llm.get_tokenizer().decode
    (output,) = generate(llm, logprobs=3, prompt_logprobs=0)
    rows = [*output.outputs[0].logprobs, *output.prompt_logprobs[1:]]
    for row in rows:
        for token_id, logprob in row.items():
            assert logprob.decoded_token == decode([token_id])


def test_each_continuation_has_its_own_and_the_prompt_has_one(folder):
    (output,) = generate(build(folder), n=2, temperature=1.0, logprobs=0, prompt_logprobs=0)
    for completion in output.outputs:
        assert [next(iter(row)) for row in completion.logprobs] == list(completion.token_ids)
        expected = reference(folder, [*PROMPT, *completion.token_ids])
        row = expected[len(PROMPT) - 1]
        check_entry(completion.logprobs[0], completion.token_ids[0], row, 0)
    assert len(output.prompt_logprobs) == len(PROMPT)
    assert output.metrics.num_cached_tokens == 16  # the second finds what the first computed


def test_a_stream_reports_logprobs_as_they_come(folder):
    llm = build(folder, max_num_batched_tokens=8)
    params = SamplingParams(temperature=0, max_tokens=3, logprobs=0, prompt_logprobs=0)
    llm.engine.add_request("a", PROMPT, params)
    outputs = []
    while llm.engine.has_unfinished_requests():
        outputs += llm.engine.step()
    assert [len(output.outputs[0].logprobs) for output in outputs] == [1, 2, 3]
    assert len(outputs[0].prompt_logprobs) == len(PROMPT)


def test_the_stop_token_has_its_logprob_too(folder):
    llm = build(folder)
    first = generate(llm)[0].outputs[0].token_ids[0]
    completion = generate(llm, logprobs=0, stop_token_ids=[first])[0].outputs[0]
    assert (completion.text, len(completion.logprobs)) == ("", 1)


@pytest.mark.parametrize("name", ["logprobs", "prompt_logprobs"])
def test_more_than_the_vocabulary_is_refused(folder, name):
    llm = build(folder)
    with pytest.raises(RequestError, match=rf"^{name}=321 is more than the model's 320"):
        generate(llm, **{name: 321})
    assert len(generate(llm, max_tokens=1, logprobs=320)[0].outputs[0].logprobs[0]) == 320
