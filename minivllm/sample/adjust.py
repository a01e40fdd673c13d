"""Changes to single logits, before anything is drawn: bias, bans and penalties.

Which tokens of a row change depends on what its request has generated so far, and they are few. So
each request that asks has its `LogitRules` on the host; they turn its tokens into a short list of
changes, and the lists of all rows cross to the device as one `LogitChanges`:

    row  token_id   bias   factor  amount
    0    257        -inf   1       0         min_tokens: no end of text yet
    0    11          2.5   1       0         logit_bias
    3    9           0     1.2     0         repetition_penalty: token 9 stands in the prompt
    3    40          0     1.2     1.1       and 40, twice in the output, has all penalties

    x = logit + bias
    logit = (x / factor if x > 0 else x * factor) - amount

A row without rules has no entry: it costs nothing and keeps its bits.
Next file to read: `logits.py`, which leaves out whole parts of a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from minivllm.device import to_device
from minivllm.messages import NewRequestData

IntArray = np.ndarray[tuple[int], np.dtype[np.int64]]

CHANGE = np.dtype(
    [
        ("token_id", np.int64),
        ("bias", np.float32),
        ("factor", np.float32),
        ("amount", np.float32),
    ]
)
_NO_TOKENS = np.zeros(0, np.int64)


class LogitRules:
    """What one request wants changed about its logits; on the host, the same for its whole life."""

    def __init__(self, new: NewRequestData) -> None:
        self._params = new.sampling_params
        self._num_prompt_tokens = new.num_prompt_tokens
        self._stop_token_ids = np.array(new.stop_token_ids, np.int64)
        self._bad_words = [np.array(word, np.int64) for word in new.bad_words_token_ids]
        bias = new.sampling_params.logit_bias or {}
        self._biased = np.array(list(bias), np.int64)
        self._biases = np.array(list(bias.values()), np.float32)

    def changes(self, token_ids: IntArray) -> np.ndarray:
        """`CHANGE` records for the token that follows `token_ids`, prompt and output."""
        params, output = self._params, token_ids[self._num_prompt_tokens :]
        repeated = token_ids if params.repetition_penalty != 1 else _NO_TOKENS
        counted = output if params.presence_penalty or params.frequency_penalty else _NO_TOKENS
        banned = self._banned(output)

        changed = np.unique(np.concatenate((self._biased, banned, repeated, counted)))
        changes = np.zeros(len(changed), CHANGE)
        changes["token_id"] = changed
        changes["bias"][np.searchsorted(changed, self._biased)] = self._biases
        changes["bias"][np.searchsorted(changed, banned)] = -np.inf
        changes["factor"] = 1
        changes["factor"][np.searchsorted(changed, repeated)] = params.repetition_penalty
        generated, counts = np.unique(counted, return_counts=True)
        amounts = params.presence_penalty + params.frequency_penalty * counts
        changes["amount"][np.searchsorted(changed, generated)] = amounts
        return changes

    def _banned(self, output: IntArray) -> IntArray:
        banned = [word[-1:] for word in self._bad_words if _stands_before_last(word, output)]
        if len(output) < self._params.min_tokens:
            banned.append(self._stop_token_ids)
        return np.concatenate((_NO_TOKENS, *banned))


def _stands_before_last(word: IntArray, output: IntArray) -> bool:
    """Whether `output` ends in all tokens of `word` but its last: `[7, 8, 9]` after `[.., 7, 8]`.

    The prompt does not count, as in vLLM (v1/sample/ops/bad_words.py): a word is banned as a whole.
    """
    length = len(word) - 1
    return length <= len(output) and np.array_equal(output[len(output) - length :], word[:-1])


@dataclass(frozen=True, kw_only=True)
class LogitChanges:
    """All changes of one step, on the device; entry i changes one logit, and no two the same."""

    rows: Int64[Tensor, " num_changes"]
    token_ids: Int64[Tensor, " num_changes"]
    biases: Float[Tensor, " num_changes"]
    factors: Float[Tensor, " num_changes"]
    amounts: Float[Tensor, " num_changes"]

    @classmethod
    def from_rows(cls, changes: Mapping[int, np.ndarray], device: torch.device) -> LogitChanges:
        """The `CHANGE` records of some rows of logits, by row; at least one row."""
        parts = list(changes.values())
        row_of_change = np.repeat(np.array(list(changes), np.int64), [len(part) for part in parts])
        joined = np.concatenate(parts)
        return cls(
            rows=to_device(row_of_change, device),
            token_ids=to_device(joined["token_id"], device),
            biases=to_device(joined["bias"], device),
            factors=to_device(joined["factor"], device),
            amounts=to_device(joined["amount"], device),
        )

    def apply(
        self, logits: Float[Tensor, "num_rows vocab_size"]
    ) -> Float[Tensor, "num_rows vocab_size"]:
        """A changed copy in float32; `logits` stay as they are, for log-probabilities."""
        changed = logits.to(torch.float32, copy=True)
        places = (self.rows, self.token_ids)
        x = changed[places] + self.biases
        changed[places] = torch.where(x > 0, x / self.factors, x * self.factors) - self.amounts
        return changed
