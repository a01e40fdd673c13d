"""Tiny random checkpoints in the Hugging Face format, and what transformers makes of them.

`initializer_range=0.2` gives logits with clear winners: with the usual 0.02 they are so flat that
equal greedy tokens would prove little.
"""

import shutil
from functools import cache
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

import minivllm

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
BYTE_TOKENIZER = Path(minivllm.__file__).parent / "assets" / "dummy-qwen3"
VOCAB_SIZE = 320

_SHAPE = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
    "bos_token_id": None,
    "eos_token_id": 257,
    "pad_token_id": None,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
}

VARIANTS = {
    "qwen3": lambda **sizes: Qwen3Config(**(_SHAPE | sizes), head_dim=16, tie_word_embeddings=True),
    "qwen2": lambda **sizes: Qwen2Config(**(_SHAPE | sizes), tie_word_embeddings=False),
    "llama": lambda **sizes: LlamaConfig(**(_SHAPE | sizes), tie_word_embeddings=True),
    "llama-llama3": lambda **sizes: LlamaConfig(**(_SHAPE | sizes), rope_parameters=dict(_LLAMA3)),
    "llama-yarn": lambda **sizes: LlamaConfig(**(_SHAPE | sizes), rope_parameters=dict(_YARN)),
    "mistral": lambda **sizes: MistralConfig(**(_SHAPE | sizes), sliding_window=None),
    "mistral-window": lambda **sizes: MistralConfig(**(_SHAPE | sizes), sliding_window=6),
}


def save_tiny(config: PretrainedConfig, folder: Path, seed: int = 0) -> Path:
    """A random model of this config with the byte-level tokenizer beside it."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():  # norms and biases that are not what they are initialised to
        for name, parameter in model.named_parameters():
            if name.endswith(("norm.weight", "bias")):
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    for name in TOKENIZER_FILES:
        if (BYTE_TOKENIZER / name).exists():
            shutil.copy(BYTE_TOKENIZER / name, folder)
    return folder


@cache
def load_reference(folder: Path):
    """The checkpoint in transformers, float32, plain attention."""
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()


def greedy_reference(folder: Path, prompt: list[int], num_tokens: int) -> list[int]:
    """Greedy tokens by running the whole sequence through transformers for each new one."""
    model = load_reference(folder)
    token_ids = list(prompt)
    with torch.inference_mode():
        for _ in range(num_tokens):
            logits = model(torch.tensor([token_ids]), use_cache=False).logits[0, -1]
            token_ids.append(int(logits.argmax()))
    return token_ids[len(prompt) :]
