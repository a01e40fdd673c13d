"""A worker without a model: it keeps its own rows and checks what a real one would read.

It sees nothing but `SchedulerOutput`s. The "keys and values" of a token are a fingerprint of the
token and all before it, as in a real model's deeper layers. Each step first writes the fingerprints
of its tokens into their slots, then reads every slot of every scheduled request and compares: a
wrong hit, a block never written, one shared by mistake or a stale table all show up as content
that is not the request's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minivllm.messages import ModelRunnerOutput, NewRequestData, SchedulerOutput
from minivllm.outputs import FinishReason
from minivllm.sampling_params import SamplingParams

VOCAB_SIZE = 6
EOS_TOKEN_IDS = frozenset({0})


def fingerprints(token_ids: Iterable[int], previous: int = 1) -> list[int]:
    """One number per token, of the token and all before it."""
    prints = []
    for token_id in token_ids:
        previous = hash((previous, token_id))  # of integers: the same in every process
        prints.append(previous)
    return prints


def choose_token(fingerprint: int) -> int:
    """What the fake model says after the history with this fingerprint."""
    return (fingerprint >> 9) % VOCAB_SIZE


def solo_run(
    prompt: Sequence[int], params: SamplingParams, max_model_len: int
) -> tuple[list[int], FinishReason, int | None]:
    """What the fake model generates for `prompt` alone: tokens, finish reason, stop reason."""
    output: list[int] = []
    fingerprint = fingerprints(prompt)[-1]
    while True:
        token_id = choose_token(fingerprint)
        output.append(token_id)
        if token_id in EOS_TOKEN_IDS and not params.ignore_eos:
            return output, "stop", None
        if token_id in (params.stop_token_ids or ()):
            return output, "stop", token_id
        if len(output) == params.max_tokens or len(prompt) + len(output) == max_model_len:
            return output, "length", None
        fingerprint = fingerprints([token_id], fingerprint)[0]


@dataclass
class Row:
    """What the worker knows of one request."""

    fingerprints: list[int]
    block_ids: list[int]
    num_computed: int


class FakeWorker:
    """Rows and pages, filled from plans only."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self.num_blocks = num_blocks
        self.clear()

    def clear(self) -> None:
        """Drop every row and poison every page."""
        self.rows: dict[str, Row] = {}
        self.pages: list[list[int | None]] = [
            [None] * self.block_size for _ in range(self.num_blocks)
        ]

    def execute(self, plan: SchedulerOutput) -> ModelRunnerOutput:
        """Carry out `plan`; the sampled tokens."""
        self._update_rows(plan)
        self._write(plan)
        self._read(plan)
        sampled: dict[str, int] = {}
        for request_id, num_tokens in plan.num_scheduled_tokens.items():
            row = self.rows[request_id]
            row.num_computed += num_tokens
            if row.num_computed == len(row.fingerprints):
                token_id = choose_token(row.fingerprints[-1])
                row.fingerprints += fingerprints([token_id], row.fingerprints[-1])
                sampled[request_id] = token_id
        return ModelRunnerOutput(
            request_ids=list(sampled), sampled_token_ids=list(sampled.values())
        )

    def _update_rows(self, plan: SchedulerOutput) -> None:
        for request_id in plan.preempted_request_ids:
            del self.rows[request_id]
        for request_id in plan.finished_request_ids:
            self.rows.pop(request_id, None)  # a request that was aborted early never had a row
        for new in plan.new_requests:
            self._add_row(new)
        cached = plan.cached_requests
        for request_id, num_computed, block_ids in zip(
            cached.request_ids, cached.num_computed_tokens, cached.new_block_ids, strict=True
        ):
            row = self.rows[request_id]
            assert row.num_computed == num_computed, "worker and scheduler disagree on progress"
            row.block_ids += block_ids
        scheduled = [*cached.request_ids, *(new.request_id for new in plan.new_requests)]
        assert list(plan.num_scheduled_tokens) == scheduled, "rows and token counts match"

    def _add_row(self, new: NewRequestData) -> None:
        assert new.request_id not in self.rows, "a request is sent in full only once"
        self.rows[new.request_id] = Row(
            fingerprints=fingerprints(new.token_ids),
            block_ids=list(new.block_ids),
            num_computed=new.num_computed_tokens,
        )

    def _write(self, plan: SchedulerOutput) -> None:
        size = self.block_size
        written = set()
        for request_id, num_tokens in plan.num_scheduled_tokens.items():
            row = self.rows[request_id]
            for position in range(row.num_computed, row.num_computed + num_tokens):
                slot = (row.block_ids[position // size], position % size)
                assert slot not in written, f"{slot=} is written twice in one step"
                written.add(slot)
                self.pages[slot[0]][slot[1]] = row.fingerprints[position]

    def _read(self, plan: SchedulerOutput) -> None:
        size = self.block_size
        for request_id, num_tokens in plan.num_scheduled_tokens.items():
            row = self.rows[request_id]
            seq_len = row.num_computed + num_tokens
            own = row.fingerprints[:seq_len]
            for index in range(-(-seq_len // size)):
                expected = own[index * size : (index + 1) * size]
                page = self.pages[row.block_ids[index]]
                assert page[: len(expected)] == expected, (
                    f"{request_id} reads what is not its own in block {row.block_ids[index]}"
                )
