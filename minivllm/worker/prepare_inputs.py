"""From rows and token counts to the tensors of one step: pure functions, no per-token Python.

Three requests compute 2, 1 and 3 tokens; the second has 5 computed ones; blocks of 4:

    query_lens         [2, 1, 3]
    query_start_loc    [0, 2, 3, 6]
    row_of_token       [0, 0, 1, 2, 2, 2]            np.repeat([0, 1, 2], query_lens)
    positions          [0, 1, 5, 0, 1, 2]            computed tokens + place within the request
    slot_mapping       [28, 29, 37, 4, 5, 6]         block_table[row, pos // 4] * 4 + pos % 4

Everything is computed on the host with numpy and crosses to the device once.
Next file to read: `minivllm/attention/metadata.py` for what these arrays mean to attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from minivllm.attention.metadata import AttentionMetadata
from minivllm.device import to_device
from minivllm.sample.adjust import LogitChanges
from minivllm.sample.metadata import SamplingMetadata
from minivllm.worker.input_batch import InputBatch

IntArray = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, kw_only=True)
class UnreadTokens:
    """Tokens of this step that the step before sampled, and the host has not read.

    Attributes:
        rows: Where they stand in `input_ids`, with some other number so far.
        sources: Where the last sampled tokens have them.
    """

    rows: Int64[Tensor, " num_unread"]
    sources: Int64[Tensor, " num_unread"]


@dataclass(frozen=True, kw_only=True)
class ModelInputs:
    """What one step feeds to the model and the sampler.

    Attributes:
        input_ids: The scheduled tokens of all requests, laid end to end.
        positions: Where each stands in its own request.
        attn_metadata: Where each finds its keys and values.
        logits_indices: Which of them are a request's last known token: those that sample.
        sampled_rows: The `InputBatch` rows of these requests.
        unread: Tokens whose ids the host does not know yet; `None` if it knows all.
        sampling_metadata: How they sample.
    """

    input_ids: Int64[Tensor, " num_tokens"]
    positions: Int64[Tensor, " num_tokens"]
    attn_metadata: AttentionMetadata
    logits_indices: Int64[Tensor, " num_sampled"]
    sampled_rows: IntArray
    unread: UnreadTokens | None
    sampling_metadata: SamplingMetadata


def decodes_first(num_scheduled_tokens: Mapping[str, int]) -> Mapping[str, int]:
    """The same requests, those that compute one token before the others.

    An attention backend may compute the two kinds differently, and rows that lie together need no
    copying. No result depends on the order.
    """
    return dict(sorted(num_scheduled_tokens.items(), key=lambda item: item[1] > 1))


def start_locations(query_lens: IntArray) -> IntArray:
    """Where each request's tokens start, then the total: `[2, 1, 3] -> [0, 2, 3, 6]`."""
    return np.concatenate(([0], np.cumsum(query_lens)))


def token_positions(num_computed_tokens: IntArray, query_lens: IntArray) -> IntArray:
    """The position of each token in its request: `[4, 5], [2, 3] -> [4, 5, 5, 6, 7]`."""
    starts = start_locations(query_lens)[:-1]
    offset = np.repeat(num_computed_tokens - starts, query_lens)
    return np.arange(len(offset)) + offset


def slot_of_tokens(
    block_table: np.ndarray, row_of_token: IntArray, positions: IntArray, block_size: int
) -> IntArray:
    """The cache slot of each token, given the `[num_reqs, max_num_blocks]` table."""
    block_ids = block_table[row_of_token, positions // block_size].astype(np.int64)
    return block_ids * block_size + positions % block_size


def prepare_inputs(
    batch: InputBatch, num_scheduled_tokens: Mapping[str, int], device: torch.device
) -> ModelInputs:
    """The inputs of a step that computes `num_scheduled_tokens` of each request in `batch`."""
    rows = np.array([batch.row_of[request_id] for request_id in num_scheduled_tokens])
    query_lens = np.array(list(num_scheduled_tokens.values()))
    num_computed = batch.num_computed_tokens[rows].astype(np.int64)
    seq_lens = num_computed + query_lens

    query_start_loc = start_locations(query_lens)
    positions = token_positions(num_computed, query_lens)
    row_of_token = np.repeat(rows, query_lens)
    slots = slot_of_tokens(batch.block_table, row_of_token, positions, batch.block_size)
    max_num_blocks = -(-int(seq_lens.max()) // batch.block_size)

    samples = seq_lens == batch.num_tokens[rows]
    sampled_rows = rows[samples]

    return ModelInputs(
        input_ids=to_device(batch.token_ids[row_of_token, positions], device),
        positions=to_device(positions, device),
        attn_metadata=AttentionMetadata(
            query_start_loc=to_device(query_start_loc.astype(np.int32), device),
            seq_lens=to_device(seq_lens.astype(np.int32), device),
            block_table=to_device(batch.block_table[rows, :max_num_blocks], device),
            slot_mapping=to_device(slots, device),
            query_lens_host=query_lens.astype(np.int32),
            seq_lens_host=seq_lens.astype(np.int32),
        ),
        logits_indices=to_device(query_start_loc[1:][samples] - 1, device),
        sampled_rows=sampled_rows,
        unread=_unread_tokens(batch, rows, query_start_loc, device),
        sampling_metadata=sampling_metadata(batch, sampled_rows, device),
    )


def _unread_tokens(
    batch: InputBatch, rows: IntArray, query_start_loc: IntArray, device: torch.device
) -> UnreadTokens | None:
    """The last tokens of those `rows` whose token the host does not know."""
    is_unread = batch.unread[rows] >= 0
    if not is_unread.any():
        return None
    return UnreadTokens(
        rows=to_device(query_start_loc[1:][is_unread] - 1, device),
        sources=to_device(batch.unread[rows[is_unread]], device),
    )


def sampling_metadata(batch: InputBatch, rows: IntArray, device: torch.device) -> SamplingMetadata:
    """How the requests in `rows` sample the token that follows their last one."""
    return SamplingMetadata.from_numpy(
        settings=batch.settings[rows],
        positions=batch.num_tokens[rows],
        changes=_logit_changes(batch, rows, device),
        device=device,
    )


def _logit_changes(batch: InputBatch, rows: IntArray, device: torch.device) -> LogitChanges | None:
    """What bias, bans and penalties change in the logits of `rows`, if anything."""
    if not batch.logit_rules:
        return None
    parts: dict[int, np.ndarray] = {}
    for i, row in enumerate(rows.tolist()):
        rules = batch.logit_rules.get(batch.request_ids[row])
        if rules is not None:
            changes = rules.changes(batch.token_ids[row, : batch.num_tokens[row]])
            if len(changes) > 0:
                parts[i] = changes
    return LogitChanges.from_rows(parts, device) if parts else None
