"""ModelRunner: one step on one device, from plan to token ids.

`start` is the whole story; each of its lines is a file of its own. Tensors are born here
and die here.
Next file to read: `input_batch.py`, then `prepare_inputs.py`, then `minivllm/models/qwen3.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.metadata import LayerKVCache
from minivllm.device import to_device
from minivllm.messages import ModelRunnerOutput, PromptLogprobs, SchedulerOutput, TokenLogprobs
from minivllm.sample.logprobs import token_logprobs
from minivllm.sample.sampler import Sampler
from minivllm.worker.decode_inputs import DecodeInputs
from minivllm.worker.device_graph import DeviceGraph
from minivllm.worker.graph_runner import GraphRunner
from minivllm.worker.input_batch import ExpectedTokens, InputBatch
from minivllm.worker.interfaces import CausalLM, SamplesTokens
from minivllm.worker.prepare_inputs import decodes_first, prepare_inputs, sampling_metadata
from minivllm.worker.prompt_logprobs import prompt_logprobs
from minivllm.worker.step_under_way import HostCopy, SampledStep, StepUnderWay


class ModelRunner:
    """Owns the rows of the live requests and the pages of the KV cache.

    Attributes:
        model: The model, as `minivllm.models` builds it.
        attention: The backend that the model's layers use.
        sampler: Logits to token ids.
        device: Where all of them are.
        input_batch: The rows.
        kv_caches: One pair of page tensors per layer; empty until allocated.
        graphs: Captured decode steps; `None` where every step runs operator by operator.
        last_sampled: The tokens of the last step that sampled some. The next step reads them here,
            so that it can be started before the host has seen them.
    """

    def __init__(
        self,
        model: CausalLM,
        attention: AttentionBackend,
        sampler: SamplesTokens,
        input_batch: InputBatch,
        device: torch.device,
    ) -> None:
        self.model = model
        self.attention = attention
        self.sampler = sampler
        self.input_batch = input_batch
        self.device = device
        self.kv_caches: list[LayerKVCache] = []
        max_num_seqs = len(input_batch.num_tokens)
        self.last_sampled = torch.zeros(max_num_seqs, dtype=torch.int64, device=device)
        self.graphs: GraphRunner | None = None

    def capture_graphs(self, new_graph: Callable[[], DeviceGraph]) -> None:
        """Capture the decode steps, once the KV cache is there.

        Args:
            new_graph: Gives a graph, still to be captured.
        """
        max_num_seqs, max_num_blocks = self.input_batch.block_table.shape
        inputs = DecodeInputs(max_num_seqs, max_num_blocks, self.device)
        self.graphs = GraphRunner(
            self.model, self.attention, self.kv_caches, inputs, new_graph, max_num_seqs
        )
        self.last_sampled = inputs.last_sampled

    @torch.inference_mode()
    def start(self, plan: SchedulerOutput) -> StepUnderWay:
        """Start computing the plan's tokens, and sampling the next one of each request due one.

        Keys and values of all scheduled tokens are in the cache for whatever is started later.
        """
        batch = self.input_batch
        batch.update(plan)
        if plan.total_num_scheduled_tokens == 0:
            return StepUnderWay()
        if self._has_graph_for(plan):
            return self._start_captured(plan)
        num_scheduled_tokens = decodes_first(plan.num_scheduled_tokens)
        inputs = prepare_inputs(batch, num_scheduled_tokens, self.device)
        if inputs.unread is not None:
            inputs.input_ids[inputs.unread.rows] = self.last_sampled[inputs.unread.sources]
        metadata = self.attention.build(inputs.attn_metadata)
        hidden_states = self.model(inputs.input_ids, inputs.positions, self.kv_caches, metadata)
        of_prompts = prompt_logprobs(
            batch, num_scheduled_tokens, hidden_states, self.model.compute_logits
        )
        if len(inputs.sampled_rows) == 0:  # nothing but chunks of prompts
            return StepUnderWay(prompt_logprobs=of_prompts)
        logits = self.model.compute_logits(hidden_states[inputs.logits_indices])
        token_ids = self.sampler(logits, inputs.sampling_metadata)
        self.last_sampled[: len(token_ids)] = token_ids
        expected = batch.expect_tokens(inputs.sampled_rows, np.arange(len(token_ids)))
        return self._under_way(expected, logits, token_ids, of_prompts)

    def _has_graph_for(self, plan: SchedulerOutput) -> bool:
        """Whether each request computes one token, of which nothing but the next is asked."""
        is_decode = plan.total_num_scheduled_tokens == len(plan.num_scheduled_tokens)
        return self.graphs is not None and is_decode and not self.input_batch.num_prompt_logprobs

    def _start_captured(self, plan: SchedulerOutput) -> StepUnderWay:
        """`start` by a graph, which draws a token for each row unless one asks for more."""
        assert self.graphs is not None, "_has_graph_for is asked first"
        batch = self.input_batch
        rows = np.array([batch.row_of[request_id] for request_id in plan.num_scheduled_tokens])
        logits = self.graphs.run(batch, rows)
        rows = rows[batch.num_computed_tokens[rows] + 1 == batch.num_tokens[rows]]
        if len(rows) == 0:  # nothing but chunks of prompts, of one token each
            return StepUnderWay()
        places = to_device(rows, self.device)
        if self._ask_for_more(rows):
            logits = logits[places]
            metadata = sampling_metadata(batch, rows, self.device)
            self.last_sampled[places] = self.sampler(logits, metadata)
        expected = batch.expect_tokens(rows, rows)
        return self._under_way(expected, logits, self.last_sampled[places], {})

    def _ask_for_more(self, rows: np.ndarray) -> bool:
        """Whether some of `rows` need their logits, for filters, rules or log-probabilities."""
        batch, settings = self.input_batch, self.input_batch.settings[rows]
        has_filter = (settings["top_k"] > 0) | (settings["top_p"] < 1) | (settings["min_p"] > 0)
        return bool(
            not isinstance(self.sampler, Sampler)  # one given in `Parts`
            or batch.logit_rules
            or batch.num_logprobs
            or (has_filter & (settings["temperature"] > 0)).any()
        )

    def _under_way(
        self,
        expected: ExpectedTokens,
        logits: Float[Tensor, "num_sampled vocab_size"],
        token_ids: Int64[Tensor, " num_sampled"],
        of_prompts: dict[str, PromptLogprobs],
    ) -> StepUnderWay:
        return StepUnderWay(
            sampled=SampledStep(
                batch=self.input_batch, expected=expected, token_ids=HostCopy(token_ids)
            ),
            logprobs=self._logprobs(expected.request_ids, logits, token_ids),
            prompt_logprobs=of_prompts,
        )

    def execute_model(self, plan: SchedulerOutput) -> ModelRunnerOutput:
        """Run one step, and wait for its tokens."""
        return self.start(plan).result()

    def _logprobs(
        self,
        request_ids: Sequence[str],
        logits: Float[Tensor, "num_sampled vocab_size"],
        token_ids: Int64[Tensor, " num_sampled"],
    ) -> dict[str, TokenLogprobs]:
        """Log-probabilities of the sampled tokens, row i being of `request_ids[i]`."""
        nums_top = self.input_batch.num_logprobs
        asking = {
            request_id: i for i, request_id in enumerate(request_ids) if request_id in nums_top
        }
        if not asking:
            return {}
        rows = torch.tensor(list(asking.values()), device=self.device)
        found = token_logprobs(logits[rows], token_ids[rows], [nums_top[who] for who in asking])
        return dict(zip(asking, found, strict=True))
