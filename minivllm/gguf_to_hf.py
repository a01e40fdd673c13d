"""A Llama-family GGUF file -> a Hugging Face folder with the same weights and tokenizer.

GGUF is llama.cpp's format: one file with key-value fields, the tokenizer among them, and tensors
that may be quantized. Two things differ from Hugging Face besides the names:

- rows of the query and key projections. RoPE turns pairs of values of a head; llama.cpp keeps the
  two of a pair next to each other, Hugging Face half a head apart (a head of 4, pairs a and b):

      GGUF   a0 a1 b0 b1          Hugging Face   a0 b0 a1 b1

- quantized weights become the float32 numbers they stand for. bfloat16 would halve the file but
  round once more (logits move by 0.15) and load slower: on a CPU the engine computes in float32.

Knows nothing of where the file came from. Spec: https://github.com/ggml-org/ggml, docs/gguf.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, TokenType
from gguf.quants import dequantize
from safetensors import SafetensorError
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tqdm import tqdm

Array = np.ndarray[Any, np.dtype[np.float32]]

_TOP_LEVEL = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_A_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert_gguf(source: Path, folder: Path, progress: bool = True) -> None:
    """Write config, generation config, weights and tokenizer of `source` into `folder`.

    Args:
        source: A GGUF file of the architecture "llama" with a byte-level BPE tokenizer of the
            kind "smollm".
        folder: An existing folder; files of the same names are replaced.
        progress: Show a bar on stderr while the tensors are converted.

    Raises:
        ValueError: The file holds another architecture or tokenizer.
    """
    reader = GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    for name, only in (("general.architecture", "llama"), ("tokenizer.ggml.pre", "smollm")):
        if fields.get(name) != only:
            raise ValueError(f"{source}: {name} is {fields.get(name)!r}; only {only!r} is known")
    weights = _weights(reader, fields, progress)
    _save_weights(weights, folder / "model.safetensors")
    config = _config(fields, tie_word_embeddings="lm_head.weight" not in weights)
    _write_json(folder / "config.json", config)
    special_ids = {name: config[name] for name in config if name.endswith("token_id")}
    _write_json(folder / "generation_config.json", special_ids)
    (folder / "tokenizer.json").write_text(_tokenizer(fields).to_str(pretty=True), encoding="utf-8")
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(fields))


def _weights(reader: GGUFReader, fields: dict[str, Any], progress: bool) -> dict[str, Array]:
    num_heads = {
        "attn_q": fields["llama.attention.head_count"],
        "attn_k": fields["llama.attention.head_count_kv"],
    }
    weights = {}
    for tensor in tqdm(reader.tensors, desc="Converting weights", disable=not progress):
        weight = dequantize(tensor.data, tensor.tensor_type)
        if tensor.name in _TOP_LEVEL:
            weights[_TOP_LEVEL[tensor.name]] = weight
            continue
        _, layer, part, _ = tensor.name.split(".")  # blk.7.attn_q.weight
        if part in num_heads:
            weight = _pairs_half_a_head_apart(weight, num_heads[part])
        weights[f"model.layers.{layer}.{_IN_A_LAYER[part]}.weight"] = weight
    return weights


def _save_weights(weights: dict[str, Array], path: Path) -> None:
    try:
        save_file(weights, path, metadata={"format": "pt"})
    except SafetensorError as error:  # how it reports a full disk, which is an OSError elsewhere
        raise OSError(f"{path.name} can't be written: {error}") from error


def _pairs_half_a_head_apart(weight: Array, num_heads: int) -> Array:
    rows, columns = weight.shape
    pairs = weight.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, columns))


def _config(fields: dict[str, Any], tie_word_embeddings: bool) -> dict[str, Any]:
    def llama(key: str) -> Any:
        return fields[f"llama.{key}"]

    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": llama("embedding_length"),
        "intermediate_size": llama("feed_forward_length"),
        "num_hidden_layers": llama("block_count"),
        "num_attention_heads": llama("attention.head_count"),
        "num_key_value_heads": llama("attention.head_count_kv"),
        "head_dim": llama("rope.dimension_count"),
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "max_position_embeddings": llama("context_length"),
        "rms_norm_eps": _as_written(llama("attention.layer_norm_rms_epsilon")),
        "rope_theta": llama("rope.freq_base"),
        "tie_word_embeddings": tie_word_embeddings,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "pad_token_id": fields["tokenizer.ggml.padding_token_id"],
        "torch_dtype": "float32",  # the name that transformers 4 and 5 both read
    }


def _as_written(value: float) -> float:
    """The short decimal number that a float32 stands for: 9.999999747378752e-06 -> 1e-05."""
    return float(str(np.float32(value)))


def _tokenizer(fields: dict[str, Any]) -> Tokenizer:
    """SmolLM2's tokenizer: byte-level BPE in which each digit is a token of its own."""
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    vocab = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = fields["tokenizer.ggml.token_type"]
    special = [
        token for token, kind in zip(tokens, kinds, strict=True) if kind == TokenType.CONTROL
    ]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    return tokenizer


def _tokenizer_config(fields: dict[str, Any]) -> dict[str, Any]:
    def token(kind: str) -> str:
        text: str = fields["tokenizer.ggml.tokens"][fields[f"tokenizer.ggml.{kind}_token_id"]]
        return text

    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": token("bos"),
        "eos_token": token("eos"),
        "unk_token": token("unknown"),
        "pad_token": token("padding"),
        "model_max_length": fields["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        "chat_template": fields["tokenizer.chat_template"],
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
