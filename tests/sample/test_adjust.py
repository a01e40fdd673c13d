"""Bias, bans and penalties against Hugging Face's processors and numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from transformers.generation.logits_process import (
    MinNewTokensLengthLogitsProcessor,
    NoBadWordsLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
)

from minivllm.messages import NewRequestData
from minivllm.sample.adjust import LogitChanges, LogitRules
from minivllm.sampling_params import SamplingParams

INF = float("inf")
VOCAB_SIZE = 50
CPU = torch.device("cpu")


def rules(
    prompt: Sequence[int] = (),
    stop_token_ids: Sequence[int] = (),
    bad_words: Sequence[Sequence[int]] = (),
    **params: Any,
) -> LogitRules:
    new = NewRequestData(
        request_id="a",
        token_ids=prompt,
        num_prompt_tokens=len(prompt),
        sampling_params=SamplingParams(**params),
        seed=0,
        block_ids=[],
        num_computed_tokens=0,
        stop_token_ids=stop_token_ids,
        bad_words_token_ids=bad_words,
    )
    return LogitRules(new)


def adjusted(logits: torch.Tensor, asked: LogitRules, token_ids: Sequence[int]) -> torch.Tensor:
    """One row of logits, changed by what is asked after `token_ids`."""
    changes = asked.changes(np.array(token_ids, np.int64))
    return LogitChanges.from_rows({0: changes}, CPU).apply(logits[None])[0]


def banned(asked: LogitRules, token_ids: Sequence[int]) -> list[int]:
    out = adjusted(torch.zeros(VOCAB_SIZE), asked, token_ids)
    assert set(out.tolist()) <= {0.0, -INF}
    return (out == -INF).nonzero()[:, 0].tolist()


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.randn(VOCAB_SIZE, generator=torch.Generator().manual_seed(0)) * 3


@pytest.mark.parametrize("penalty", [0.5, 1.1, 2.0])
def test_repetition_penalty_equals_transformers(logits: torch.Tensor, penalty: float) -> None:
    token_ids = [3, 9, 3, 3, *range(20, VOCAB_SIZE)]
    expected = RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([token_ids]), logits[None])
    out = adjusted(logits, rules([3, 9, 3], repetition_penalty=penalty), token_ids)
    torch.testing.assert_close(out, expected[0], rtol=1e-6, atol=0)


def test_repetition_penalty_lowers_positive_and_negative_logits_of_prompt_and_output() -> None:
    logits = torch.tensor([4.0, -4.0, 4.0, -4.0, 0.0])
    out = adjusted(logits, rules([0, 4], repetition_penalty=2.0), [0, 4, 1])
    assert out.tolist() == [2.0, -8.0, 4.0, -4.0, 0.0]


def test_presence_penalty_is_taken_once_from_each_token_of_the_output() -> None:
    out = adjusted(torch.ones(5), rules([0, 1], presence_penalty=0.5), [0, 1, 1, 3, 3])
    assert out.tolist() == [1.0, 0.5, 1.0, 0.5, 1.0]


def test_frequency_penalty_is_taken_for_each_time_in_the_output() -> None:
    out = adjusted(torch.ones(5), rules([0, 1], frequency_penalty=0.5), [0, 1, 1, 3, 3])
    assert out.tolist() == [1.0, 0.5, 1.0, 0.0, 1.0]


def test_negative_penalties_favour_what_was_generated() -> None:
    asked = rules([0], presence_penalty=-1.0, frequency_penalty=-0.5)
    assert adjusted(torch.zeros(3), asked, [0, 2, 2]).tolist() == [0.0, 0.0, 2.0]


def test_repetition_penalty_comes_before_the_other_two() -> None:
    asked = rules([0], repetition_penalty=2.0, presence_penalty=1.0, frequency_penalty=0.25)
    # 3 / 2 - 1 - 2 * 0.25, and not (3 - 1.5) / 2
    assert adjusted(torch.full((3,), 3.0), asked, [0, 1, 1]).tolist() == [1.5, 0.0, 3.0]


def test_logit_bias_is_added_before_the_penalties() -> None:
    asked = rules([1], logit_bias={1: 2.0, 2: -1.0}, repetition_penalty=2.0)
    assert adjusted(torch.ones(4), asked, [1, 3]).tolist() == [1.0, 1.5, 0.0, 0.5]


@pytest.mark.parametrize("output", [[], [7], [7, 8], [8, 7], [7, 8, 9, 7], [5, 7, 8], [8, 8]])
def test_bad_words_ban_what_transformers_bans(output: list[int]) -> None:
    words = [[7, 8, 9], [4], [8, 8], [7, 8]]
    token_ids = [1, 2, 3, *output]  # transformers leaves out words longer than the whole text
    zeros = torch.zeros(1, VOCAB_SIZE)
    expected = NoBadWordsLogitsProcessor(words)(torch.tensor([token_ids]), zeros)
    out = banned(rules([1, 2, 3], bad_words=words), token_ids)
    assert out == (expected[0] == -INF).nonzero()[:, 0].tolist()


def test_prompt_tokens_are_no_part_of_a_bad_word() -> None:
    # as in vLLM: only what is generated is looked at, so a word is banned as a whole
    asked = rules([7], bad_words=[[7, 8]])
    assert banned(asked, [7]) == []
    assert banned(asked, [7, 7]) == [8]


@pytest.mark.parametrize("num_output", [0, 1, 2, 3])
def test_min_tokens_masks_the_ends_that_transformers_masks(num_output: int) -> None:
    token_ids = torch.arange(4 + num_output)
    processor = MinNewTokensLengthLogitsProcessor(4, 2, [5, 17], device="cpu")
    expected = processor(token_ids[None], torch.zeros(1, VOCAB_SIZE))[0]
    asked = rules(range(4), min_tokens=2, stop_token_ids=[17, 5])
    assert banned(asked, token_ids.tolist()) == (expected == -INF).nonzero()[:, 0].tolist()


def test_min_tokens_changes_nothing_once_it_is_reached() -> None:
    asked = rules([1], min_tokens=1, stop_token_ids=[5])
    assert len(asked.changes(np.array([1, 2]))) == 0


def test_a_ban_outweighs_bias_and_penalties() -> None:
    asked = rules(
        [5],
        logit_bias={5: 100.0},
        bad_words=[[5], [5]],
        repetition_penalty=0.5,
        presence_penalty=-2.0,
    )
    assert adjusted(torch.full((VOCAB_SIZE,), 3.0), asked, [5, 5])[5] == -INF


def test_no_logit_is_listed_twice() -> None:
    asked = rules(
        [3, 4], stop_token_ids=[3], bad_words=[[4]], logit_bias={3: 1.0, 9: 1.0}, min_tokens=9
    )
    assert asked.changes(np.array([3, 4, 3]))["token_id"].tolist() == [3, 4, 9]


def test_rows_without_changes_keep_their_bits(logits: torch.Tensor) -> None:
    batch = torch.stack([logits, logits * 1.1, logits * 1.3, -logits])
    asked = rules([3], repetition_penalty=1.3, frequency_penalty=0.7)
    changes = asked.changes(np.array([3, 8, 9]))
    out = LogitChanges.from_rows({2: changes, 0: changes}, CPU).apply(batch)
    assert torch.equal(out[[1, 3]], batch[[1, 3]])
    for row in (0, 2):
        alone = LogitChanges.from_rows({0: changes}, CPU).apply(batch[row : row + 1])
        assert torch.equal(out[row], alone[0])
        assert not torch.equal(out[row], batch[row])


def test_banned_tokens_and_rows_stay_free_of_nan() -> None:
    logits = torch.full((1, 6), -INF)
    asked = rules([1], repetition_penalty=1.5, presence_penalty=2.0, logit_bias={2: 5.0})
    changes = asked.changes(np.array([1, 1, 3]))
    assert torch.equal(LogitChanges.from_rows({0: changes}, CPU).apply(logits), logits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_given_logits_are_not_changed(logits: torch.Tensor, dtype: torch.dtype) -> None:
    given = logits.to(dtype)
    before = given.clone()
    out = adjusted(given, rules(logit_bias={3: 5.0}), [1])
    assert torch.equal(given, before)
    assert out.dtype == torch.float32
    assert out[3] == before[3].float() + 5


@pytest.mark.parametrize(
    "params",
    [
        {"logit_bias": {1: 1.0}},
        {"bad_words": ["a"]},
        {"min_tokens": 1},
        {"presence_penalty": -0.1},
        {"frequency_penalty": 0.1},
        {"repetition_penalty": 0.9},
    ],
)
def test_each_field_that_changes_logits_needs_rules(params: dict[str, Any]) -> None:
    assert SamplingParams(**params).has_logit_rules


def test_other_fields_need_no_rules() -> None:
    other = {"top_p": 0.5, "top_k": 3, "min_p": 0.1, "seed": 1, "logprobs": 2, "logit_bias": {}}
    assert not SamplingParams(**other).has_logit_rules
