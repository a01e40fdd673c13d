"""Small random Hugging Face models, the same models of ours, and a paged cache to run them on."""

import numpy as np
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.models.hf_config import parse_config
from minivllm.models.loader import destinations
from minivllm.models.registry import model_class
from minivllm.parallel import TensorParallel

FAMILIES = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "mistral": (MistralConfig, MistralForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}
SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
}
BLOCK_SIZE = 4
NUM_BLOCKS = 40


def hf_model(family, **overrides):
    """A random model; its norms and biases are random too, so that none can be forgotten."""
    config_class, hf_class = FAMILIES[family]
    sizes = SIZES | ({"head_dim": 8} if family == "qwen3" else {}) | overrides
    torch.manual_seed(0)
    model = hf_class._from_config(config_class(**sizes), attn_implementation="eager").eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.uniform_(0.5, 1.5)
            if name.endswith("bias"):
                parameter.normal_(std=0.5)
    return model


def our_model(hf, backend):
    """The same model of ours: its architecture from the config, its weights from the state dict."""
    config = hf.config.to_dict() | {"architectures": [type(hf).__name__]}
    arch = parse_config(config)
    model = model_class(arch.name)(arch, backend, TensorParallel())
    tensors = hf.state_dict()
    if arch.tie_word_embeddings:
        del tensors["lm_head.weight"]
    targets = destinations(model)
    assert targets.keys() == tensors.keys()
    for name, target in targets.items():
        target.copy_(tensors[name])
    return model


class PagedRun:
    """Prompts fed to a model in steps, on one paged cache of shuffled blocks filled with NaN."""

    def __init__(self, hf, backend, prompts):
        self.model, self.backend, self.prompts = our_model(hf, backend), backend, prompts
        config = hf.config
        head_dim = getattr(config, "head_dim", None)
        head_dim = head_dim or config.hidden_size // config.num_attention_heads
        shape = (NUM_BLOCKS, BLOCK_SIZE, config.num_key_value_heads, head_dim)
        self.kv_caches = [
            LayerKVCache(torch.full(shape, torch.nan), torch.full(shape, torch.nan))
            for _ in range(config.num_hidden_layers)
        ]
        free = np.random.default_rng(0).permutation(np.arange(1, NUM_BLOCKS)).tolist()
        self.tables = [[free.pop() for _ in range(-(-len(p) // BLOCK_SIZE))] for p in prompts]
        self.num_computed = [0] * len(prompts)

    def step(self, num_tokens):
        """Logits of each prompt's next `num_tokens[i]` tokens; a prompt with 0 is left out."""
        ids, positions, slots, rows, owners = [], [], [], [], []
        for i, count in enumerate(num_tokens):
            if count == 0:
                continue
            span = range(self.num_computed[i], self.num_computed[i] + count)
            ids += [self.prompts[i][p] for p in span]
            positions += span
            slots += [self.tables[i][p // BLOCK_SIZE] * BLOCK_SIZE + p % BLOCK_SIZE for p in span]
            rows.append(count)
            owners.append(i)
            self.num_computed[i] += count
        metadata = self._metadata(rows, owners, slots)
        hidden = self.model(
            torch.tensor(ids),
            torch.tensor(positions),
            self.kv_caches,
            self.backend.build(metadata),
        )
        logits = self.model.compute_logits(hidden)
        return dict(zip(owners, logits.split(rows), strict=True))

    def _metadata(self, query_lens, owners, slots):
        width = max(len(table) for table in self.tables)
        tables = [self.tables[i] + [0] * (width - len(self.tables[i])) for i in owners]
        seq_lens = np.array([self.num_computed[i] for i in owners], dtype=np.int32)
        starts = np.concatenate(([0], np.cumsum(query_lens))).astype(np.int32)
        return AttentionMetadata(
            query_start_loc=torch.from_numpy(starts),
            seq_lens=torch.from_numpy(seq_lens),
            block_table=torch.tensor(tables, dtype=torch.int32),
            slot_mapping=torch.tensor(slots),
            query_lens_host=np.array(query_lens, dtype=np.int32),
            seq_lens_host=seq_lens,
        )
