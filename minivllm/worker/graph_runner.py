"""GraphRunner: decode steps as graphs, one for each of some batch sizes.

In a step in which each request computes one token, all that differs from step to step are numbers
in tensors, so it can be captured once and replayed (`device_graph.py` says how). Sizes are rounded
up to the next one captured, and the rows in between take no part:

    max_num_seqs 40      captured 1, 2, 4, 8, 16, 32, 40       5 requests replay the graph of 8

The graph goes from token ids to logits, and draws a token for each row on the way: the most likely
one, or by temperature. Whoever asks for more is sampled from the logits afterwards.
Next file to read: `decode_inputs.py`, what the graphs read.
Source: vLLM: v1/worker/gpu_model_runner.py, `capture_model`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.metadata import LayerKVCache
from minivllm.worker.decode_inputs import DecodeInputs
from minivllm.worker.device_graph import DeviceGraph
from minivllm.worker.input_batch import InputBatch
from minivllm.worker.interfaces import CausalLM


def graph_sizes(max_num_seqs: int) -> list[int]:
    """The batch sizes to capture, ascending, the last one `max_num_seqs` itself.

    Small batches are exact, as a row of padding costs them most.
    """
    small = [size for size in (1, 2, 4, 8) if size < max_num_seqs]
    return [*small, *range(16, max_num_seqs, 16), max_num_seqs]


class GraphRunner:
    """The graphs, and the inputs that they share.

    Attributes:
        inputs: What the graphs read, and the tokens they sample.
    """

    def __init__(
        self,
        model: CausalLM,
        attention: AttentionBackend,
        kv_caches: list[LayerKVCache],
        inputs: DecodeInputs,
        new_graph: Callable[[], DeviceGraph],
        max_num_seqs: int,
    ) -> None:
        """Capture a graph for each size; no row takes part in it, so that nothing is written.

        The largest comes first: the smaller ones find room in the memory that it leaves.
        """
        self._model = model
        self._attention = attention
        self._kv_caches = kv_caches
        self.inputs = inputs
        self._sizes = graph_sizes(max_num_seqs)
        self._graphs: dict[int, DeviceGraph] = {}
        self._logits: dict[int, Tensor] = {}
        for size in reversed(self._sizes):
            self._graphs[size] = new_graph()
            self._logits[size] = self._graphs[size].capture(partial(self._step, size))

    def run(
        self, batch: InputBatch, rows: np.ndarray
    ) -> Float[Tensor, "num_captured_rows vocab_size"]:
        """The logits of one token of each of `rows`, in the places of these rows; others undefined.

        The graph's own draw for a row is in `inputs.last_sampled`, in the same place. Both are
        overwritten by the next run.
        """
        self.inputs.send(batch, rows)
        size = self._sizes[bisect_left(self._sizes, len(batch.request_ids))]
        self._graphs[size].replay()
        return self._logits[size]

    @torch.inference_mode()
    def _step(self, num_rows: int) -> Float[Tensor, "num_rows vocab_size"]:
        from minivllm.kernels.sample import sample  # importing it chooses how Triton runs

        inputs, rows = self.inputs, slice(0, num_rows)
        metadata = self._attention.build(inputs.attn_metadata(num_rows))
        input_ids = inputs.input_ids(num_rows)
        hidden_states = self._model(input_ids, inputs.positions[rows], self._kv_caches, metadata)
        logits = self._model.compute_logits(hidden_states)
        inputs.last_sampled[rows] = sample(
            logits, inputs.temperatures[rows], inputs.seeds[rows], inputs.next_positions[rows]
        )
        return logits
