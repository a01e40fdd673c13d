"""ModelRunner: one step on one device, from plan to token ids.

`execute_model` is the whole story; each of its lines is a file of its own. Tensors are born here
and die here.
Next file to read: `input_batch.py`, then `prepare_inputs.py`, then `minivllm/models/qwen3.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.messages import ModelRunnerOutput, SchedulerOutput, TokenLogprobs
from minivllm.sample.logprobs import token_logprobs
from minivllm.sample.metadata import SamplingMetadata
from minivllm.worker.input_batch import InputBatch
from minivllm.worker.prepare_inputs import prepare_inputs
from minivllm.worker.prompt_logprobs import prompt_logprobs


@runtime_checkable
class CausalLM(Protocol):
    """What a model must be able to do: those of `minivllm.models`, or one given in `Parts`."""

    def __call__(
        self,
        input_ids: Int64[Tensor, " num_tokens"],
        positions: Int64[Tensor, " num_tokens"],
        kv_caches: list[LayerKVCache],
        attn_metadata: AttentionMetadata,
    ) -> Float[Tensor, "num_tokens hidden_size"]:
        """A hidden state per token; keys and values of all tokens are in `kv_caches` after it."""

    def compute_logits(
        self, hidden_states: Float[Tensor, "num_rows hidden_size"]
    ) -> Float[Tensor, "num_rows vocab_size"]:
        """The scores of the next token, for those rows that need them."""


@runtime_checkable
class SamplesTokens(Protocol):
    """What a sampler must be able to do."""

    def __call__(
        self, logits: Float[Tensor, "num_rows vocab_size"], metadata: SamplingMetadata
    ) -> Int64[Tensor, " num_rows"]:
        """A token id per row; `logits` stay as they are, as log-probabilities come from them."""


class ModelRunner:
    """Owns the rows of the live requests and the pages of the KV cache.

    Attributes:
        model: The model, as `minivllm.models` builds it.
        attention: The backend that the model's layers use.
        sampler: Logits to token ids.
        device: Where all of them are.
        input_batch: The rows.
        kv_caches: One pair of page tensors per layer; empty until allocated.
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

    @torch.inference_mode()
    def execute_model(self, plan: SchedulerOutput) -> ModelRunnerOutput:
        """Compute the plan's tokens and sample the next one of each request that is due.

        Keys and values of all scheduled tokens are in the cache afterwards.
        """
        self.input_batch.update(plan)
        if plan.total_num_scheduled_tokens == 0:
            return ModelRunnerOutput()
        inputs = prepare_inputs(self.input_batch, plan.num_scheduled_tokens, self.device)
        metadata = self.attention.build(inputs.attn_metadata)
        hidden_states = self.model(inputs.input_ids, inputs.positions, self.kv_caches, metadata)
        of_prompts = prompt_logprobs(
            self.input_batch, plan.num_scheduled_tokens, hidden_states, self.model.compute_logits
        )
        if len(inputs.sampled_rows) == 0:  # nothing but chunks of prompts
            return ModelRunnerOutput(prompt_logprobs=of_prompts)
        logits = self.model.compute_logits(hidden_states[inputs.logits_indices])
        token_ids = self.sampler(logits, inputs.sampling_metadata)

        sampled = token_ids.cpu().numpy()  # here the host waits for the device
        self.input_batch.append_tokens(inputs.sampled_rows, sampled)
        request_ids = [self.input_batch.request_ids[row] for row in inputs.sampled_rows.tolist()]
        return ModelRunnerOutput(
            request_ids=request_ids,
            sampled_token_ids=sampled.tolist(),
            logprobs=self._logprobs(request_ids, logits, token_ids),
            prompt_logprobs=of_prompts,
        )

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
