"""All that chooses a token, from the request to the token id, against an oracle of plain loops."""

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minivllm.counter_random import gumbel
from minivllm.messages import NewRequestData, SchedulerOutput
from minivllm.sample.sampler import Sampler
from minivllm.sampling_params import SamplingParams
from minivllm.worker.input_batch import InputBatch
from minivllm.worker.prepare_inputs import prepare_inputs

VOCAB_SIZE = 12
CPU = torch.device("cpu")

# Fractions of powers of two, so that float32 is exact up to the filters.
token_ids = st.integers(0, VOCAB_SIZE - 1)
quarters = st.integers(-8, 8).map(lambda n: n / 4)
words = st.lists(token_ids, min_size=1, max_size=3)
requests = st.fixed_dictionaries(
    {
        "prompt": st.lists(token_ids, min_size=1, max_size=6),
        "output": st.lists(token_ids, max_size=6),
        "logits": st.lists(
            st.one_of(quarters, st.just(-math.inf)), min_size=VOCAB_SIZE, max_size=VOCAB_SIZE
        ),
        "stop_token_ids": st.lists(token_ids, max_size=2),
        "bad_words_token_ids": st.lists(words, max_size=3),
        "seed": st.integers(0, 2**63 - 1),
        "params": st.fixed_dictionaries(
            {},
            optional={
                "temperature": st.sampled_from([0.0, 0.5, 1.0, 2.0]),
                "min_p": st.sampled_from([0.1, 0.5, 1.0]),
                "top_k": st.integers(-1, VOCAB_SIZE + 1),
                "top_p": st.floats(0.01, 1.0),
                "presence_penalty": quarters,
                "frequency_penalty": quarters,
                "repetition_penalty": st.sampled_from([0.5, 2.0]),
                "logit_bias": st.dictionaries(token_ids, quarters, max_size=3),
                "min_tokens": st.integers(0, 6),
            },
        ),
    }
)


def message(i, request):
    known = request["prompt"] + request["output"]
    bad_words = request["bad_words_token_ids"]
    return NewRequestData(
        request_id=str(i),
        token_ids=known,
        num_prompt_tokens=len(request["prompt"]),
        sampling_params=SamplingParams(bad_words=["word"] * len(bad_words), **request["params"]),
        seed=request["seed"],
        block_ids=[3 * i, 3 * i + 1, 3 * i + 2],
        num_computed_tokens=len(known) - 1,
        stop_token_ids=request["stop_token_ids"],
        bad_words_token_ids=bad_words,
    )


def sampled(requests):
    """The tokens that the requests get in one batch."""
    new = [message(i, request) for i, request in enumerate(requests)]
    num_tokens = {one.request_id: 1 for one in new}
    batch = InputBatch(max_num_seqs=len(new), max_model_len=12, block_size=4)
    batch.update(
        SchedulerOutput(
            step=0,
            new_requests=new,
            num_scheduled_tokens=num_tokens,
            total_num_scheduled_tokens=len(new),
        )
    )
    inputs = prepare_inputs(batch, num_tokens, CPU)
    logits = torch.tensor([request["logits"] for request in requests])
    return Sampler()(logits, inputs.sampling_metadata).tolist()


def adjusted(request):
    """The logits after bias, bans and penalties."""
    prompt, output, params = request["prompt"], request["output"], request["params"]
    logits = list(request["logits"])
    for token_id, bias in params.get("logit_bias", {}).items():
        logits[token_id] += bias
    for word in request["bad_words_token_ids"]:
        if [*output, word[-1]][-len(word) :] == word:
            logits[word[-1]] = -math.inf
    if len(output) < params.get("min_tokens", 0):
        for token_id in request["stop_token_ids"]:
            logits[token_id] = -math.inf
    for token_id in range(VOCAB_SIZE):
        if token_id in prompt or token_id in output:
            penalty = params.get("repetition_penalty", 1.0)
            positive = logits[token_id] > 0
            logits[token_id] *= 1 / penalty if positive else penalty
        if token_id in output:
            count = output.count(token_id)
            logits[token_id] -= params.get("presence_penalty", 0.0)
            logits[token_id] -= params.get("frequency_penalty", 0.0) * count
    return logits


def allowed(logits, params, slack):
    """The token ids that min-p, top-k and top-p leave, a little fewer or more."""
    best = max(logits)
    probs = [math.exp(logit - best) for logit in logits]
    order = sorted(range(VOCAB_SIZE), key=lambda i: (-logits[i], i))
    order = [i for i in order if probs[i] >= params.get("min_p", 0.0) - slack]
    top_k = params.get("top_k", 0)
    if 0 < top_k < len(order):
        order = [i for i in order if logits[i] >= logits[order[top_k - 1]]]
    top_p = params.get("top_p", 1.0)
    if top_p == 1:
        return order
    total, sum_before, kept = sum(probs[i] for i in order), 0.0, []
    for i in order:
        if kept and sum_before >= (top_p + slack) * total:
            break
        kept.append(i)
        sum_before += probs[i]
    return kept


@given(st.lists(requests, min_size=1, max_size=5))
@settings(max_examples=400, deadline=None)
def test_every_row_of_a_batch_gets_what_the_oracle_chooses(requests):
    for request, token_id in zip(requests, sampled(requests), strict=True):
        params, logits = request["params"], adjusted(request)
        if max(logits) == -math.inf:
            continue  # nothing is allowed
        temperature = params.get("temperature", 1.0)
        if temperature == 0:
            assert token_id == logits.index(max(logits))
            continue
        logits = [logit / temperature for logit in logits]
        position = len(request["prompt"]) + len(request["output"])
        noise = gumbel(torch.tensor([request["seed"]]), torch.tensor([position]), VOCAB_SIZE)
        scores = [a + b for a, b in zip(logits, noise[0].tolist(), strict=True)]
        # a share may fall on a border to within float32: then either side of it is right
        assert token_id in allowed(logits, params, slack=1e-6)
        fewest = allowed(logits, params, slack=-1e-6)
        assert scores[token_id] >= max((scores[i] for i in fewest), default=-math.inf) - 1e-5


@given(st.lists(requests, min_size=2, max_size=5))
@settings(max_examples=100, deadline=None)
def test_a_row_in_a_crowd_equals_its_solo_run(requests):
    assert sampled(requests) == [sampled([request])[0] for request in requests]


def test_a_batch_that_asks_for_nothing_has_no_changes_and_no_min_p():
    request = NewRequestData(
        request_id="a",
        token_ids=[1, 2],
        num_prompt_tokens=2,
        sampling_params=SamplingParams(top_p=0.5),
        seed=0,
        block_ids=[0],
        num_computed_tokens=0,
        stop_token_ids=[3],
    )
    batch = InputBatch(max_num_seqs=1, max_model_len=12, block_size=4)
    plan = SchedulerOutput(
        step=0,
        new_requests=[request],
        num_scheduled_tokens={"a": 2},
        total_num_scheduled_tokens=2,
    )
    batch.update(plan)
    metadata = prepare_inputs(batch, {"a": 2}, CPU).sampling_metadata
    assert metadata.changes is None
    assert metadata.min_ps is None
    assert np.array_equal(metadata.filtered_rows.numpy(), [0])
