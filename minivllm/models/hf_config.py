"""ModelArchitecture: what a model's config.json says, under one set of names.

Reads the files of transformers 4.x and 5.x, which spell the same model differently, and gives equal
architectures for equal models. What transformers would get wrong silently, or what no model here
can do (quantised weights, other activations), is refused by name. Imports neither torch nor
transformers. Next file: `minivllm/models/registry.py`, which picks the model class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minivllm.errors import CheckpointError
from minivllm.layers.rope_parameters import RopeParameters
from minivllm.models.json_fields import JsonFields, read_json_object
from minivllm.models.registry import SUPPORTED, check_supported
from minivllm.models.rope_config import parse_rope

__all__ = [
    "ModelArchitecture",
    "RopeParameters",
    "eos_token_ids",
    "parse_config",
    "read_config",
    "read_generation_config",
]


@dataclass(frozen=True, kw_only=True)
class ModelArchitecture:
    """The shape of a decoder-only transformer, whatever file it was read from."""

    name: str  # architectures[0], such as "Qwen3ForCausalLM"
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope: RopeParameters
    max_position_embeddings: int
    tie_word_embeddings: bool
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    sliding_windows: tuple[int | None, ...]  # one per layer; None is full attention
    eos_token_ids: tuple[int, ...]
    bos_token_id: int | None
    dtype: str  # of the weights in the checkpoint, such as "bfloat16"


# What transformers assumes for a key that the file leaves out (a key with null is not left out).
# The sizes that make a model what it is have no default here: without them the file is refused.
_COMMON_DEFAULTS: dict[str, Any] = {
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "head_dim": None,
    "num_key_value_heads": None,
}
_QWEN_DEFAULTS: dict[str, Any] = {
    **_COMMON_DEFAULTS,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32_768,
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "Qwen3ForCausalLM": {**_QWEN_DEFAULTS, "model_type": "qwen3", "head_dim": 128},
    "Qwen2ForCausalLM": {**_QWEN_DEFAULTS, "model_type": "qwen2"},
    "LlamaForCausalLM": {
        **_COMMON_DEFAULTS,
        "model_type": "llama",
        "max_position_embeddings": 2048,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "MistralForCausalLM": {
        **_COMMON_DEFAULTS,
        "model_type": "mistral",
        "num_key_value_heads": 8,
        "max_position_embeddings": 131_072,
        "sliding_window": 4096,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
}
_DTYPES = ("float64", "float32", "float16", "bfloat16")


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a checkpoint's folder.

    Raises:
        CheckpointError: It is missing or no JSON object.
    """
    return read_json_object(folder / "config.json")


def read_generation_config(folder: Path) -> dict[str, Any]:
    """The generation_config.json of a checkpoint's folder; empty when there is none.

    Raises:
        CheckpointError: It is there, but no JSON object.
    """
    path = folder / "generation_config.json"
    return read_json_object(path) if path.exists() else {}


def eos_token_ids(
    architecture: ModelArchitecture, generation_config: Mapping[str, Any]
) -> tuple[int, ...]:
    """Every token id that ends a text: those of config.json, then those of generation_config.json.

    Raises:
        CheckpointError: `eos_token_id` is no id, list of ids, or null.
    """
    more = JsonFields(generation_config, "generation_config.json").token_ids("eos_token_id")
    return tuple(dict.fromkeys((*architecture.eos_token_ids, *more)))


def parse_config(config: Mapping[str, Any]) -> ModelArchitecture:
    """The architecture that a config.json describes.

    Raises:
        CheckpointError: The model is not supported, or a field is missing or wrong.
    """
    name = _architecture_name(config)
    fields = JsonFields({**_DEFAULTS[name], **config}, f"config.json ({name})")
    _refuse_what_no_model_here_does(fields, _DEFAULTS[name]["model_type"])
    num_heads, num_kv_heads, head_dim = _heads(fields)
    qkv_bias, o_bias, mlp_bias = _biases(name, fields)
    num_layers = fields.integer("num_hidden_layers")
    return ModelArchitecture(
        name=name,
        vocab_size=fields.integer("vocab_size"),
        hidden_size=fields.integer("hidden_size"),
        intermediate_size=fields.integer("intermediate_size"),
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        rms_norm_eps=fields.number("rms_norm_eps"),
        rope=parse_rope(fields),
        max_position_embeddings=fields.integer("max_position_embeddings"),
        tie_word_embeddings=fields.flag("tie_word_embeddings"),
        qkv_bias=qkv_bias,
        o_bias=o_bias,
        mlp_bias=mlp_bias,
        sliding_windows=_sliding_windows(name, fields, num_layers),
        eos_token_ids=fields.token_ids("eos_token_id"),
        bos_token_id=fields.integer("bos_token_id", 0) if fields.has("bos_token_id") else None,
        dtype=_dtype(fields),
    )


def _architecture_name(config: Mapping[str, Any]) -> str:
    names = config.get("architectures")
    if not isinstance(names, list) or not names:
        raise CheckpointError(
            f"config.json: architectures={names!r} must be a list that names the model class, "
            f"one of {', '.join(SUPPORTED)}"
        )
    return check_supported(names[0])


def _refuse_what_no_model_here_does(fields: JsonFields, model_type: str) -> None:
    if fields.values["model_type"] != model_type:
        raise fields.error("model_type", f"contradicts architectures: {model_type!r} is expected")
    if fields.values["hidden_act"] not in ("silu", "swish"):  # two names of one function
        raise fields.error("hidden_act", "is not supported: only silu is")
    if fields.has("quantization_config"):
        method = fields.section("quantization_config").values.get("quant_method")
        raise CheckpointError(
            f"{fields.where}: quantization_config (quant_method={method!r}) is not supported: "
            "use a checkpoint whose weights are float32, float16 or bfloat16"
        )
    if fields.has("per_layer_config"):
        raise fields.error("per_layer_config", "is not supported: all layers are built alike")


def _heads(fields: JsonFields) -> tuple[int, int, int]:
    """num_heads, num_kv_heads, head_dim."""
    num_heads = fields.integer("num_attention_heads")
    num_kv_heads = num_heads
    if fields.has("num_key_value_heads"):
        num_kv_heads = fields.integer("num_key_value_heads")
    if num_heads % num_kv_heads:
        raise fields.error("num_key_value_heads", f"must divide num_attention_heads={num_heads}")
    if fields.has("head_dim"):
        head_dim = fields.integer("head_dim")
    else:
        hidden_size = fields.integer("hidden_size")
        if hidden_size % num_heads:
            raise fields.error(
                "hidden_size",
                f"must be a multiple of num_attention_heads={num_heads}: no head_dim is given",
            )
        head_dim = hidden_size // num_heads
    if head_dim % 2:
        raise CheckpointError(f"{fields.where}: {head_dim=} must be even: RoPE rotates pairs")
    return num_heads, num_kv_heads, head_dim


def _biases(name: str, fields: JsonFields) -> tuple[bool, bool, bool]:
    """Whether q, k and v, the output projection, and the MLP add a bias: a rule per family."""
    match name:
        case "Qwen2ForCausalLM":
            return True, False, False  # fixed in its code: the file has no attention_bias
        case "MistralForCausalLM":
            return False, False, False
        case "Qwen3ForCausalLM":
            return fields.flag("attention_bias"), fields.flag("attention_bias"), False
        case _:
            assert name == "LlamaForCausalLM", "check_supported let only the four families pass"
            bias = fields.flag("attention_bias")
            return bias, bias, fields.flag("mlp_bias")


def _sliding_windows(name: str, fields: JsonFields, num_layers: int) -> tuple[int | None, ...]:
    """How many tokens each layer sees, its own included; None is all. A rule per family."""
    window = fields.integer("sliding_window") if _uses_window(name, fields) else None
    if fields.has("layer_types"):
        return _windows_by_layer_type(name, fields, window, num_layers)
    first = 0
    if window is not None and name != "MistralForCausalLM":
        first = min(fields.integer("max_window_layers", 0), num_layers)
    return (None,) * first + (window,) * (num_layers - first)


def _uses_window(name: str, fields: JsonFields) -> bool:
    match name:
        case "LlamaForCausalLM":
            if fields.has("sliding_window"):
                # transformers' mask ignores it, its cache obeys it: no right answer to match.
                raise fields.error("sliding_window", "is not part of a Llama: use null")
            return False
        case "MistralForCausalLM":
            return fields.has("sliding_window")
        case _:
            return fields.flag("use_sliding_window") and fields.has("sliding_window")


def _windows_by_layer_type(
    name: str, fields: JsonFields, window: int | None, num_layers: int
) -> tuple[int | None, ...]:
    layer_types = fields.values["layer_types"]
    known = ("full_attention", "sliding_attention")
    if not isinstance(layer_types, list) or any(kind not in known for kind in layer_types):
        raise fields.error("layer_types", f"must be a list of {' and '.join(known)}")
    if len(layer_types) != num_layers:
        raise fields.error("layer_types", f"must have one entry for each of {num_layers} layers")
    if window is None and "sliding_attention" in layer_types:
        raise fields.error("layer_types", "asks for a window, but sliding_window is off")
    if name == "MistralForCausalLM" and window is not None and "full_attention" in layer_types:
        raise fields.error("layer_types", "is not part of a Mistral: all its layers are alike")
    return tuple(window if kind == "sliding_attention" else None for kind in layer_types)


def _dtype(fields: JsonFields) -> str:
    name = "dtype" if fields.has("dtype") else "torch_dtype"  # 5.x, then 4.x
    value = str(fields.values.get(name) or "float32").removeprefix("torch.")
    if value not in _DTYPES:
        raise fields.error(name, f"is not supported; use one of {', '.join(_DTYPES)}")
    return value
