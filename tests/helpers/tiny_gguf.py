"""A tiny Llama as a GGUF file, written the way llama.cpp writes it."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import torch
from gguf.quants import quantize
from transformers import LlamaConfig, LlamaForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ hello"]
# 258 byte characters of byte-level BPE are not needed: printable ASCII and the space's "Ġ" do.
TOKENS = [
    *SPECIAL,
    *(chr(c) for c in range(33, 127)),
    "Ġ",
    "Ċ",
    *(merge.replace(" ", "") for merge in MERGES),
]
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['content'] + '<|im_end|>' }}{% endfor %}"
)

_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=128,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 5000.0},
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    model = LlamaForCausalLM(config).eval()
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return model


def write_tiny_gguf(path: Path, architecture: str = "llama") -> LlamaForCausalLM:
    """Write the model to `path` and give it back; `v_proj` is stored quantized (Q8_0)."""
    model = tiny_llama()
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(5000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, parameter in model.named_parameters():
        _add_tensor(writer, name, parameter.detach().numpy(), config)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def _add_tensor(
    writer: gguf.GGUFWriter, name: str, weight: np.ndarray, config: LlamaConfig
) -> None:
    if name == "model.embed_tokens.weight":
        writer.add_tensor("token_embd.weight", weight)
        return
    if name == "model.norm.weight":
        writer.add_tensor("output_norm.weight", weight)
        return
    _, _, layer, part = name.removesuffix(".weight").split(".", 3)
    gguf_name = f"blk.{layer}.{_NAMES[part]}.weight"
    if part.endswith("v_proj"):
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(gguf_name, quantize(weight, kind), raw_dtype=kind)
        return
    if part.endswith(("q_proj", "k_proj")):
        heads = config.num_attention_heads if "q_proj" in part else config.num_key_value_heads
        # Row by row: row r of a head's first half and row r of its second half become neighbours.
        half = config.head_dim // 2
        order = [
            head * config.head_dim + row + side * half
            for head in range(heads)
            for row in range(half)
            for side in (0, 1)
        ]
        weight = np.ascontiguousarray(weight[order])
    writer.add_tensor(gguf_name, weight)
