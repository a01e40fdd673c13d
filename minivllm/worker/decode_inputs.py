"""DecodeInputs: the tensors that a captured decode step reads, and how a step fills them.

A graph reads the same memory in every replay. So the inputs live on the device for good, with one
place per row of the `InputBatch`, and each step sends what differs, in one copy:

    tokens        [ last sampled: 0 .. max_num_seqs | ids the host knows: 0 .. max_num_seqs ]
    sources       where in `tokens` a row's input is: in the first half if the host has not seen
                  it yet, else in the second, at max_num_seqs + row
    block_table   stays; only rows that changed are sent again

A row that takes no part, be it padding or a request that is not scheduled, has slot -1 and length
0: it writes nowhere, attends to nothing, and nobody reads what it samples.
Next file to read: `graph_runner.py`.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float32, Int32, Int64
from torch import Tensor

from minivllm.attention.metadata import AttentionMetadata
from minivllm.device import to_device
from minivllm.worker.input_batch import InputBatch

# What is sent in every step, 8 bytes a row and field; the last holds two fields of 4 bytes.
_FIELDS = ("token_ids", "sources", "positions", "next_positions", "slots", "seeds", "short")


class DecodeInputs:
    """Static tensors with `max_num_seqs` places each.

    Attributes:
        last_sampled: The tokens of the last step that sampled some.
        positions: Of each row's token.
        next_positions: Of the token that follows it.
        seeds: Of each row's random numbers.
        temperatures: 0 takes the most likely token.
    """

    last_sampled: Int64[Tensor, " max_num_seqs"]
    positions: Int64[Tensor, " max_num_seqs"]
    next_positions: Int64[Tensor, " max_num_seqs"]
    seeds: Int64[Tensor, " max_num_seqs"]
    temperatures: Float32[Tensor, " max_num_seqs"]

    def __init__(self, max_num_seqs: int, max_num_blocks: int, device: torch.device) -> None:
        self._max_num_seqs = max_num_seqs
        shape = (1 + len(_FIELDS), max_num_seqs)
        buffer = torch.zeros(shape, dtype=torch.int64, device=device)
        self.last_sampled = buffer[0]
        self._tokens = buffer[:2].flatten()  # the last sampled, then `token_ids`
        self._sent = buffer[1:]
        fields = dict(zip(_FIELDS, self._sent, strict=True))
        self._sources, self._slots = fields["sources"], fields["slots"]
        self.positions, self.next_positions = fields["positions"], fields["next_positions"]
        self.seeds = fields["seeds"]
        self._seq_lens: Int32[Tensor, " max_num_seqs"]
        self._seq_lens, temperatures = fields["short"].view(torch.int32).chunk(2)
        self.temperatures = temperatures.view(torch.float32)
        table_shape = (max_num_seqs, max_num_blocks)
        self._block_table = torch.zeros(table_shape, dtype=torch.int32, device=device)
        self._query_start_loc = torch.arange(max_num_seqs + 1, dtype=torch.int32, device=device)
        self._slots.fill_(-1)

    def input_ids(self, num_rows: int) -> Int64[Tensor, " {num_rows}"]:
        """The tokens to compute, gathered by an operation that a graph can hold."""
        return self._tokens[self._sources[:num_rows]]

    def attn_metadata(self, num_rows: int) -> AttentionMetadata:
        """What attention reads, for a step of `num_rows` rows; lengths on the host are unknown."""
        return AttentionMetadata(
            query_start_loc=self._query_start_loc[: num_rows + 1],
            seq_lens=self._seq_lens[:num_rows],
            block_table=self._block_table[:num_rows],
            slot_mapping=self._slots[:num_rows],
            query_lens_host=np.ones(num_rows, np.int32),
            seq_lens_host=np.zeros(num_rows, np.int32),
        )

    def send(self, batch: InputBatch, rows: np.ndarray) -> None:
        """Let `rows` of `batch` compute their next token, and no others; waits for nothing."""
        is_pinned = self._sent.device.type == "cuda"
        host = torch.zeros(self._sent.shape, dtype=torch.int64, pin_memory=is_pinned)
        fields = dict(zip(_FIELDS, host.numpy(), strict=True))
        seq_lens, temperatures = np.split(fields["short"].view(np.int32), 2)

        positions = batch.num_computed_tokens[rows].astype(np.int64)
        unread = batch.unread[rows]
        blocks = batch.block_table[rows, positions // batch.block_size].astype(np.int64)
        fields["token_ids"][rows] = batch.token_ids[rows, positions]
        fields["sources"][rows] = np.where(unread >= 0, unread, self._max_num_seqs + rows)
        fields["positions"][rows] = positions
        fields["next_positions"][rows] = positions + 1
        fields["slots"].fill(-1)
        fields["slots"][rows] = blocks * batch.block_size + positions % batch.block_size
        fields["seeds"][rows] = batch.settings["seed"][rows]
        seq_lens[rows] = positions + 1
        temperatures.view(np.float32)[rows] = batch.settings["temperature"][rows]
        self._sent.copy_(host, non_blocking=True)
        self._send_tables(batch)

    def _send_tables(self, batch: InputBatch) -> None:
        changed = batch.take_changed_tables()
        if len(changed) > 0:
            device = self._block_table.device
            tables = to_device(batch.block_table[changed], device)
            self._block_table.index_copy_(0, to_device(changed, device), tables)
