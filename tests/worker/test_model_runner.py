"""A tiny model run by plans: log-probabilities of output and prompt against transformers."""

from functools import cache

import pytest
import torch
from tiny_models import BLOCK_SIZE, hf_model, our_model

from minivllm.attention.metadata import LayerKVCache
from minivllm.attention.reference import ReferenceAttention
from minivllm.messages import CachedRequestData, NewRequestData, SchedulerOutput
from minivllm.sample.sampler import Sampler
from minivllm.sampling_params import SamplingParams
from minivllm.worker import prompt_logprobs
from minivllm.worker.input_batch import InputBatch
from minivllm.worker.model_runner import ModelRunner

PROMPT = [5, 17, 3, 60, 3, 8, 41, 2, 9, 30, 11]


@cache
def tiny_hf():
    return hf_model("qwen3")


def expected_logprobs(token_ids):
    """Of transformers, in float64: row p is about the token after position p."""
    with torch.inference_mode():
        logits = tiny_hf()(torch.tensor([token_ids])).logits[0]
    return logits.double().log_softmax(-1)


class Run:
    """A runner with room for four requests, and the plans of each one's next tokens."""

    def __init__(self):
        hf, backend = tiny_hf(), ReferenceAttention()
        batch = InputBatch(max_num_seqs=4, max_model_len=32, block_size=BLOCK_SIZE)
        cpu = torch.device("cpu")
        self.runner = ModelRunner(our_model(hf, backend), backend, Sampler(), batch, cpu)
        shape = (32, BLOCK_SIZE, hf.config.num_key_value_heads, hf.config.head_dim)
        self.runner.kv_caches = [
            LayerKVCache(torch.full(shape, torch.nan), torch.full(shape, torch.nan))
            for _ in range(hf.config.num_hidden_layers)
        ]
        self.num_computed = {}

    def start(self, request_id, token_ids, num_prompt_tokens=None, **params):
        number = len(self.num_computed)
        self.num_computed[request_id] = 0
        return NewRequestData(
            request_id=request_id,
            token_ids=token_ids,
            num_prompt_tokens=num_prompt_tokens or len(token_ids),
            sampling_params=SamplingParams(**{"temperature": 0, **params}),
            seed=number,
            block_ids=range(8 * number, 8 * number + 8),
            num_computed_tokens=0,
        )

    def step(self, num_tokens, new_requests=()):
        old = [name for name in num_tokens if name not in {new.request_id for new in new_requests}]
        plan = SchedulerOutput(
            step=0,
            new_requests=new_requests,
            cached_requests=CachedRequestData(
                request_ids=old,
                num_computed_tokens=[self.num_computed[name] for name in old],
                new_block_ids=[[]] * len(old),
            ),
            num_scheduled_tokens=num_tokens,
            total_num_scheduled_tokens=sum(num_tokens.values()),
        )
        for name, count in num_tokens.items():
            self.num_computed[name] += count
        return self.runner.execute_model(plan)


def assert_tokens_are(entries, token_ids, rows):
    """Each entry is about one token, and its numbers are those of one row of logprobs."""
    assert [entry.token_ids[0] for entry in entries] == list(token_ids)
    assert len(entries) == len(rows)
    for entry, row in zip(entries, rows, strict=True):
        for token_id, logprob, rank in zip(*entry, strict=True):
            assert logprob == pytest.approx(float(row[token_id]), abs=1e-4)
            assert rank == 1 + int((row > row[token_id]).sum())


def test_logprobs_of_each_new_token_equal_transformers():
    run, token_ids = Run(), list(PROMPT)
    new = run.start("a", PROMPT, logprobs=3)
    for step in range(3):
        output = run.step({"a": 1 if step else len(PROMPT)}, () if step else [new])
        (sampled,) = output.sampled_token_ids
        entry = output.logprobs["a"]
        row = expected_logprobs(token_ids)[-1]
        assert_tokens_are([entry], [sampled], [row])
        assert entry.token_ids == row.topk(3).indices.tolist()  # greedy: the first is one of them
        token_ids.append(sampled)


def test_logprobs_are_of_the_raw_logits():
    settings = {
        "logit_bias": {7: 100.0},
        "temperature": 0.1,
        "top_k": 1,
        "repetition_penalty": 1.5,
        "min_p": 0.5,
    }
    run = Run()
    output = run.step({"a": len(PROMPT)}, [run.start("a", PROMPT, logprobs=2, **settings)])
    assert output.sampled_token_ids == [7]
    row = expected_logprobs(PROMPT)[-1]
    assert_tokens_are([output.logprobs["a"]], [7], [row])
    assert output.logprobs["a"].token_ids == [7, *row.topk(2).indices.tolist()]


def test_only_requests_that_ask_get_logprobs():
    run = Run()
    new = [
        run.start("a", PROMPT[:4]),
        run.start("b", PROMPT, logprobs=0),
        run.start("c", PROMPT[2:7], logprobs=5, prompt_logprobs=1),
    ]
    output = run.step({one.request_id: len(one.token_ids) for one in new}, new)
    assert list(output.request_ids) == ["a", "b", "c"]
    assert {name: len(entry.token_ids) for name, entry in output.logprobs.items()} == {
        "b": 1,
        "c": 5,
    }
    assert_tokens_are(
        [output.logprobs["b"], output.logprobs["c"]],
        output.sampled_token_ids[1:],
        [expected_logprobs(PROMPT)[-1], expected_logprobs(PROMPT[2:7])[-1]],
    )
    assert list(output.prompt_logprobs) == ["c"]


@pytest.mark.parametrize("chunks", [[11], [10, 1], [1, 10], [4, 4, 3], [1] * 11])
def test_prompt_logprobs_equal_transformers_in_any_chunks(chunks):
    run = Run()
    other = run.start("other", PROMPT[::-1], prompt_logprobs=0)
    new = [other, run.start("a", PROMPT, prompt_logprobs=4)]
    found = []
    for number, chunk in enumerate(chunks):
        # the other request comes first, so that rows and requests do not start together
        output = run.step({"other": 1, "a": chunk}, () if number else new)
        if "a" in output.prompt_logprobs:
            start, entries = output.prompt_logprobs["a"]
            assert start == 1 + len(found)
            found += entries
    assert_tokens_are(found, PROMPT[1:], expected_logprobs(PROMPT)[:-1])
    assert all(4 <= len(entry.token_ids) <= 5 for entry in found)


def test_generated_tokens_are_no_part_of_the_prompt_logprobs():
    run = Run()
    # resumed after a preemption: of its tokens, 6 are the prompt
    new = run.start("a", PROMPT, num_prompt_tokens=6, prompt_logprobs=1)
    first = run.step({"a": 8}, [new]).prompt_logprobs["a"]
    assert_tokens_are(first.tokens, PROMPT[1:6], expected_logprobs(PROMPT)[:5])
    assert run.step({"a": 3}).prompt_logprobs == {}


def test_prompt_of_one_token_has_no_logprobs():
    run = Run()
    output = run.step({"a": 1}, [run.start("a", [5], prompt_logprobs=1)])
    assert output.prompt_logprobs == {}
    assert len(output.sampled_token_ids) == 1


def test_long_prompts_are_scored_a_few_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(prompt_logprobs, "_ROWS_AT_ONCE", 4)
    run, num_rows = Run(), []
    compute_logits = run.runner.model.compute_logits
    run.runner.model.compute_logits = lambda x: num_rows.append(len(x)) or compute_logits(x)
    output = run.step({"a": 11}, [run.start("a", PROMPT, prompt_logprobs=2)])
    assert num_rows == [4, 4, 2, 1]  # ten prompt tokens, and the one that samples
    assert_tokens_are(
        output.prompt_logprobs["a"].tokens, PROMPT[1:], expected_logprobs(PROMPT)[:-1]
    )


def test_what_a_request_asked_for_leaves_with_it():
    run = Run()
    asked = {"logprobs": 1, "prompt_logprobs": 1, "logit_bias": {7: 100.0}}
    run.step({"a": 3}, [run.start("a", PROMPT[:3], **asked)])
    run.runner.execute_model(
        SchedulerOutput(
            step=1,
            num_scheduled_tokens={},
            total_num_scheduled_tokens=0,
            finished_request_ids=["a"],
        )
    )
    output = run.step({"a": 3}, [run.start("a", PROMPT[:3])])
    assert output.logprobs == output.prompt_logprobs == {}
    assert output.sampled_token_ids != [7]
