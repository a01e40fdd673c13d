"""InputBatch: one row per live request, kept from step to step.

A step changes little: a token per row, a block every `block_size` steps, now and then a request
that comes or goes. So the rows are numpy arrays that live as long as the worker, a plan changes
only what differs, and preparing a step's inputs is array arithmetic over rows:

    row   request   token_ids            num_tokens   num_computed   block_table
    0     "a"       [ 5  9  2  7  0 ..]           4              3   [ 7  2  0 ..]
    1     "c"       [ 8  8  0  0  0 ..]           2              0   [ 4  0  0 ..]

When a row becomes free, the last one moves into the gap. Rows mirror the scheduler's requests but
never look at them: all they know came in a `SchedulerOutput`.

A sampled token has its place in a row before the host knows it: `expect_tokens` makes room when the
step is started, `enter_tokens` fills it in when the token has come from the device. A step that is
started in between takes it from where the device has left it.
Next file to read: `prepare_inputs.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minivllm.messages import CachedRequestData, NewRequestData, SchedulerOutput
from minivllm.sample.adjust import LogitRules
from minivllm.sample.metadata import SETTINGS
from minivllm.sampling_params import MIN_TEMPERATURE

_MAX_TOP_K = 2**31 - 1  # more than any vocabulary, and a number that fits its column


@dataclass(frozen=True, kw_only=True)
class ExpectedTokens:
    """Tokens that are being sampled; entry i of each is one token.

    Attributes:
        request_ids: Whose they are.
        serials: Of their rows: a row that is gone, or belongs to somebody else now, gets nothing.
        positions: Where in the row they belong.
    """

    request_ids: Sequence[str]
    serials: np.ndarray[tuple[int], np.dtype[np.int64]]
    positions: np.ndarray[tuple[int], np.dtype[np.int32]]


class InputBatch:
    """The rows of all requests that have blocks.

    Attributes:
        request_ids: The request of each row.
        row_of: The row of each request.
        token_ids: Known tokens, `[max_num_seqs, max_model_len]`; beyond `num_tokens` old ones.
        num_tokens: How many tokens there are, the one that is being sampled included.
        unread: Where the last sampled tokens on the device have this row's last token, if the host
            does not know it yet; else -1.
        serials: Which row this is, counted over all that there ever were.
        num_computed_tokens: How many of them have keys and values in the cache.
        block_table: Physical blocks, `[max_num_seqs, max_num_blocks]`; beyond `num_blocks` 0.
        num_blocks: How many blocks a row has.
        table_changed: Rows whose table is not what `take_changed_tables` last told of.
        num_prompt_tokens: How many of the known tokens are the prompt.
        settings: How each row samples, a record of `SETTINGS`.
        logit_rules: Bias, bans and penalties of the requests that ask for some.
        num_logprobs: How many of the most likely tokens to report, for requests that ask.
        num_prompt_logprobs: The same for the tokens of the prompt.
    """

    def __init__(self, max_num_seqs: int, max_model_len: int, block_size: int) -> None:
        max_num_blocks = -(-max_model_len // block_size)
        self.block_size = block_size
        self.request_ids: list[str] = []
        self.row_of: dict[str, int] = {}
        self.token_ids = np.zeros((max_num_seqs, max_model_len), np.int64)
        self.num_tokens = np.zeros(max_num_seqs, np.int32)
        self.unread = np.full(max_num_seqs, -1, np.int64)
        self.serials = np.zeros(max_num_seqs, np.int64)
        self._next_serial = 0
        self.num_computed_tokens = np.zeros(max_num_seqs, np.int32)
        self.block_table = np.zeros((max_num_seqs, max_num_blocks), np.int32)
        self.num_blocks = np.zeros(max_num_seqs, np.int32)
        self.table_changed = np.zeros(max_num_seqs, np.bool_)
        self.num_prompt_tokens = np.zeros(max_num_seqs, np.int32)
        self.settings = np.zeros(max_num_seqs, SETTINGS)
        # few requests ask for these, so they are no columns, and cost the others nothing
        self.logit_rules: dict[str, LogitRules] = {}
        self.num_logprobs: dict[str, int] = {}
        self.num_prompt_logprobs: dict[str, int] = {}

    def update(self, plan: SchedulerOutput) -> None:
        """Bring the rows to where the plan stands: requests removed, added, moved on."""
        for request_id in (*plan.finished_request_ids, *plan.preempted_request_ids):
            self._remove(request_id)
        self._advance(plan.cached_requests)
        for new in plan.new_requests:
            self._add(new)

    def take_changed_tables(self) -> np.ndarray:
        """The rows whose tables have changed since this was last asked, `[num_changed]`."""
        changed = np.flatnonzero(self.table_changed)
        self.table_changed[changed] = False
        return changed

    def expect_tokens(self, rows: np.ndarray, places: np.ndarray) -> ExpectedTokens:
        """Make room for the token that each of `rows` is now sampling.

        Args:
            rows: The rows.
            places: Where among the last sampled tokens each row's will stand.
        """
        positions = self.num_tokens[rows]
        self.num_tokens[rows] += 1
        self.unread[rows] = places
        request_ids = [self.request_ids[row] for row in rows.tolist()]
        return ExpectedTokens(
            request_ids=request_ids, serials=self.serials[rows], positions=positions
        )

    def enter_tokens(self, expected: ExpectedTokens, token_ids: np.ndarray) -> None:
        """Fill in the tokens that `expected` made room for."""
        rows = np.array([self.row_of.get(request_id, -1) for request_id in expected.request_ids])
        is_there = (rows >= 0) & (self.serials[rows] == expected.serials)
        rows, positions = rows[is_there], expected.positions[is_there]
        self.token_ids[rows, positions] = token_ids[is_there]
        is_last = self.num_tokens[rows] == positions + 1  # no later token is being sampled
        self.unread[rows[is_last]] = -1

    def _add(self, new: NewRequestData) -> None:
        row = len(self.request_ids)
        self.request_ids.append(new.request_id)
        self.row_of[new.request_id] = row
        num_tokens = len(new.token_ids)
        self.token_ids[row, :num_tokens] = new.token_ids
        self.num_tokens[row] = num_tokens
        self.unread[row] = -1
        self.serials[row] = self._next_serial
        self._next_serial += 1
        self.num_computed_tokens[row] = new.num_computed_tokens
        self.num_blocks[row] = 0
        self._append_blocks(row, new.block_ids)
        self.num_prompt_tokens[row] = new.num_prompt_tokens
        self._add_sampling(row, new)

    def _add_sampling(self, row: int, new: NewRequestData) -> None:
        params = new.sampling_params
        top_k = min(params.top_k, _MAX_TOP_K)
        temperature = max(params.temperature, MIN_TEMPERATURE) if params.temperature else 0.0
        record = (temperature, params.min_p, top_k, params.top_p, new.seed)
        self.settings[row] = record
        if params.has_logit_rules:
            self.logit_rules[new.request_id] = LogitRules(new)
        if params.logprobs is not None:
            self.num_logprobs[new.request_id] = params.logprobs
        if params.prompt_logprobs is not None:
            self.num_prompt_logprobs[new.request_id] = params.prompt_logprobs

    def _advance(self, cached: CachedRequestData) -> None:
        rows = [self.row_of[request_id] for request_id in cached.request_ids]
        self.num_computed_tokens[rows] = cached.num_computed_tokens
        for row, block_ids in zip(rows, cached.new_block_ids, strict=True):
            if block_ids:
                self._append_blocks(row, block_ids)

    def _append_blocks(self, row: int, block_ids: Sequence[int]) -> None:
        start = self.num_blocks[row]
        self.block_table[row, start : start + len(block_ids)] = block_ids
        self.num_blocks[row] = start + len(block_ids)
        self.table_changed[row] = True

    def _remove(self, request_id: str) -> None:
        """Free a row; a request without one (it ended while it waited) is left alone."""
        row = self.row_of.pop(request_id, None)
        if row is None:
            return
        last = len(self.request_ids) - 1
        if row != last:
            moved = self.request_ids[last]
            self.request_ids[row] = moved
            self.row_of[moved] = row
            for column in self._columns():
                column[row] = column[last]
            self.table_changed[row] = True
        for asked in (self.logit_rules, self.num_logprobs, self.num_prompt_logprobs):
            asked.pop(request_id, None)
        self.request_ids.pop()
        self.block_table[last] = 0

    def _columns(self) -> tuple[np.ndarray, ...]:
        return (
            self.token_ids,
            self.num_tokens,
            self.unread,
            self.serials,
            self.num_computed_tokens,
            self.block_table,
            self.num_blocks,
            self.num_prompt_tokens,
            self.settings,
        )
