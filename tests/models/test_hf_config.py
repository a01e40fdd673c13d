import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from minivllm.errors import CheckpointError
from minivllm.models.hf_config import (
    eos_token_ids,
    parse_config,
    read_config,
    read_generation_config,
)
from minivllm.models.registry import SUPPORTED

FAMILIES = {
    "Qwen3ForCausalLM": "qwen3",
    "Qwen2ForCausalLM": "qwen2",
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
}
SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
}


def a_config(name: str, **fields: Any) -> dict[str, Any]:
    """The smallest file of the family that works, with `fields` on top."""
    return {
        "architectures": [name],
        "model_type": FAMILIES[name],
        "num_key_value_heads": 2,
        **SIZES,
        **fields,
    }


def without(config: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in names}


def hf_model(config: dict[str, Any], folder: Path) -> Any:
    """What transformers builds from the same file, without weights."""
    (folder / "config.json").write_text(json.dumps(config))
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))


def facts_of_hf_model(model: Any) -> dict[str, Any]:
    """Read from the modules where they show it, from the config where they don't."""
    config, layers = model.config, model.model.layers
    attention, mlp = layers[0].self_attn, layers[0].mlp
    windows = [config.sliding_window if config.model_type == "mistral" else None] * len(layers)
    if config.model_type in ("qwen2", "qwen3"):
        windows = [layer.self_attn.sliding_window for layer in layers]
    eos = config.eos_token_id
    return {
        "vocab_size": model.lm_head.out_features,
        "hidden_size": model.lm_head.in_features,
        "intermediate_size": mlp.gate_proj.out_features,
        "num_layers": len(layers),
        "num_heads": attention.q_proj.out_features // attention.head_dim,
        "num_kv_heads": attention.k_proj.out_features // attention.head_dim,
        "head_dim": attention.head_dim,
        "rms_norm_eps": layers[0].input_layernorm.variance_epsilon,
        "max_position_embeddings": config.max_position_embeddings,
        "tie_word_embeddings": config.tie_word_embeddings,
        "qkv_bias": attention.q_proj.bias is not None,
        "o_bias": attention.o_proj.bias is not None,
        "mlp_bias": mlp.gate_proj.bias is not None,
        "sliding_windows": tuple(windows),
        "eos_token_ids": tuple(eos if isinstance(eos, list) else [] if eos is None else [eos]),
        "bos_token_id": config.bos_token_id,
    }


SAME_AS_TRANSFORMERS = {
    "minimal": {},
    "head_dim": {"head_dim": 32},
    "tied": {"tie_word_embeddings": True},
    "biases asked for": {"attention_bias": True, "mlp_bias": True},
    "attention bias": {"attention_bias": True},
    "mlp bias": {"mlp_bias": True},
    "one key and value head": {"num_key_value_heads": 1},
    "numbers": {"rms_norm_eps": 1e-5, "max_position_embeddings": 777},
    "eos list": {"eos_token_id": [3, 5], "bos_token_id": 4},
    "eos and bos null": {"eos_token_id": None, "bos_token_id": None},
    "eos and bos zero": {"eos_token_id": 0, "bos_token_id": 0},
}
WINDOWS = {
    "on": {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0},
    "from a layer on": {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 3},
    "beyond the last layer": {"use_sliding_window": True, "sliding_window": 8},
    "off": {"use_sliding_window": False, "sliding_window": 8, "max_window_layers": 0},
    "switch absent": {"sliding_window": 8, "max_window_layers": 0},
    "on but null": {"use_sliding_window": True, "sliding_window": None, "max_window_layers": 0},
    "size absent": {"use_sliding_window": True, "max_window_layers": 1},
    "layer types": {
        "use_sliding_window": True,
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "layer types null": {
        "use_sliding_window": True,
        "sliding_window": 8,
        "max_window_layers": 2,
        "layer_types": None,
    },
}


def check_same_as_transformers(config: dict[str, Any], folder: Path) -> None:
    arch = parse_config(config)
    facts = facts_of_hf_model(hf_model(config, folder))
    assert {name: getattr(arch, name) for name in facts} == facts


@pytest.mark.parametrize("fields", SAME_AS_TRANSFORMERS.values(), ids=SAME_AS_TRANSFORMERS)
@pytest.mark.parametrize("name", FAMILIES)
def test_architecture_is_what_transformers_builds(
    name: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    config = a_config(name, **fields)
    if name == "Qwen3ForCausalLM" or fields != {}:
        config.setdefault("head_dim", 16)
    check_same_as_transformers(config, tmp_path)


@pytest.mark.parametrize("fields", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("name", ["Qwen2ForCausalLM", "Qwen3ForCausalLM"])
def test_qwen_windows_are_those_of_transformers(
    name: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    check_same_as_transformers(a_config(name, **fields), tmp_path)


@pytest.mark.parametrize(
    "fields",
    [
        {"sliding_window": 8},
        {"sliding_window": None},
        {},
        {"sliding_window": 8, "use_sliding_window": False},
        {"sliding_window": 8, "max_window_layers": 2},
    ],
)
def test_mistral_windows_are_those_of_transformers(fields: dict[str, Any], tmp_path: Path) -> None:
    check_same_as_transformers(a_config("MistralForCausalLM", **fields), tmp_path)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_a_file_leaves_out_is_what_transformers_assumes(name: str, tmp_path: Path) -> None:
    config = without(a_config(name, num_attention_heads=32), "num_key_value_heads", "model_type")
    arch = parse_config(config)
    facts = facts_of_hf_model(hf_model({**config, "model_type": FAMILIES[name]}, tmp_path))
    assert {field: getattr(arch, field) for field in facts} == facts


@pytest.mark.parametrize("name", FAMILIES)
def test_null_key_value_heads_are_as_many_as_the_query_heads(name: str) -> None:
    assert parse_config(a_config(name, num_key_value_heads=None)).num_kv_heads == 4


@pytest.mark.parametrize("name", FAMILIES)
def test_null_head_dim_is_hidden_size_over_heads(name: str) -> None:
    assert parse_config(a_config(name, head_dim=None)).head_dim == 16


@pytest.mark.parametrize(
    ("name", "hidden_size", "num_heads", "head_dim"),
    [("MistralForCausalLM", 5120, 32, 128), ("Qwen3ForCausalLM", 1024, 16, 128)],
)
def test_head_dim_may_differ_from_hidden_size_over_heads(
    name: str, hidden_size: int, num_heads: int, head_dim: int
) -> None:
    config = a_config(
        name, hidden_size=hidden_size, num_attention_heads=num_heads, head_dim=head_dim
    )
    assert parse_config(config).head_dim == head_dim


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "default", "rope_theta": 500_000.0},
        {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 2.0},
        {
            "rope_type": "llama3",
            "rope_theta": 500_000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        {
            "rope_type": "yarn",
            "rope_theta": 1e6,
            "factor": 4.0,
            "original_max_position_embeddings": 64,
            "beta_fast": 16,
            "attention_factor": 1.5,
        },
    ],
    ids=lambda rope: rope["rope_type"],
)
@pytest.mark.parametrize("spelling", ["rope_type", "type"])
@pytest.mark.parametrize("name", FAMILIES)
def test_old_and_new_file_of_a_model_are_the_same_architecture(
    name: str, rope: dict[str, Any], spelling: str, tmp_path: Path
) -> None:
    common = {"max_position_embeddings": 256, "head_dim": 16}
    new_file = a_config(name, **common, dtype="bfloat16", rope_parameters=rope)
    scaling = without(rope, "rope_theta", "rope_type") | {spelling: rope["rope_type"]}
    old_file = a_config(
        name,
        **common,
        torch_dtype="bfloat16",
        rope_theta=rope["rope_theta"],
        rope_scaling=None if rope["rope_type"] == "default" else scaling,
    )
    arch = parse_config(new_file)
    assert parse_config(old_file) == arch
    # transformers agrees that the two files are one model
    read = [hf_model(file, tmp_path).config.rope_parameters for file in (new_file, old_file)]
    assert without(read[0], "type") == without(read[1], "type")
    assert (arch.rope.rope_type, arch.rope.theta) == (rope["rope_type"], rope["rope_theta"])


@pytest.mark.parametrize("name", FAMILIES)
def test_file_that_transformers_saves_gives_the_model_that_was_saved(
    name: str, tmp_path: Path
) -> None:
    config = a_config(name, head_dim=32, tie_word_embeddings=True, rms_norm_eps=1e-5)
    model = hf_model(config, tmp_path)
    model.config.architectures = [name]
    model.config.save_pretrained(tmp_path)
    assert parse_config(read_config(tmp_path)) == parse_config(config)


@pytest.mark.parametrize(
    ("fields", "dtype"),
    [
        ({"dtype": "float16"}, "float16"),
        ({"torch_dtype": "bfloat16"}, "bfloat16"),
        ({"dtype": "float16", "torch_dtype": "bfloat16"}, "float16"),
        ({"dtype": None, "torch_dtype": "bfloat16"}, "bfloat16"),
        ({"torch_dtype": "torch.bfloat16"}, "bfloat16"),
        ({"dtype": None}, "float32"),
        ({}, "float32"),
    ],
)
def test_dtype_of_both_spellings(fields: dict[str, Any], dtype: str) -> None:
    assert parse_config(a_config("LlamaForCausalLM", **fields)).dtype == dtype


@pytest.mark.parametrize("missing", [*SIZES, "architectures"])
def test_missing_size_is_named(missing: str) -> None:
    with pytest.raises(CheckpointError, match=missing):
        parse_config(without(a_config("Qwen3ForCausalLM"), missing))


@pytest.mark.parametrize(
    "architectures", [None, [], "Qwen3ForCausalLM", [7], [None], ["Qwen3MoeForCausalLM"]]
)
def test_architecture_that_is_not_known_is_refused_with_the_list(architectures: object) -> None:
    with pytest.raises(CheckpointError, match="architectures") as error:
        parse_config(a_config("Qwen3ForCausalLM") | {"architectures": architectures})
    assert all(name in str(error.value) for name in SUPPORTED)


BAD_FIELDS = [
    ("vocab_size", "96"),
    ("vocab_size", 0),
    ("hidden_size", -64),
    ("hidden_size", 64.0),
    ("hidden_size", None),
    ("intermediate_size", True),
    ("num_hidden_layers", 0),
    ("num_attention_heads", [4]),
    ("num_key_value_heads", 3),
    ("num_key_value_heads", 0),
    ("num_key_value_heads", 8),
    ("head_dim", 15),
    ("head_dim", 0),
    ("head_dim", "16"),
    ("rms_norm_eps", "1e-6"),
    ("rms_norm_eps", -1e-6),
    ("rms_norm_eps", float("nan")),
    ("max_position_embeddings", 0),
    ("max_position_embeddings", 1e9),
    ("tie_word_embeddings", "false"),
    ("tie_word_embeddings", 1),
    ("attention_bias", "true"),
    ("hidden_act", "gelu"),
    ("hidden_act", None),
    ("eos_token_id", "2"),
    ("eos_token_id", -1),
    ("eos_token_id", [2, None]),
    ("bos_token_id", [1]),
    ("dtype", "int8"),
    ("torch_dtype", "auto"),
    ("dtype", {"": "float32"}),
    ("model_type", "mistral"),
    ("per_layer_config", {"0": {"head_dim": 8}}),
    ("rope_theta", "10000"),
    ("rope_theta", 0),
    ("rope_scaling", "linear"),
    ("rope_parameters", [1]),
]


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS)
def test_wrong_value_is_named_with_its_field(field: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=field) as error:
        parse_config(a_config("LlamaForCausalLM", **{field: value}))
    assert repr(value) in str(error.value)
    assert "LlamaForCausalLM" in str(error.value)


def test_hidden_size_must_split_into_heads_when_there_is_no_head_dim() -> None:
    with pytest.raises(CheckpointError, match="hidden_size=66"):
        parse_config(a_config("LlamaForCausalLM", hidden_size=66))
    assert parse_config(a_config("LlamaForCausalLM", hidden_size=66, head_dim=8)).head_dim == 8


@pytest.mark.parametrize(
    "fields",
    [
        {"sliding_window": 0},
        {"sliding_window": "8"},
        {"sliding_window": 8, "max_window_layers": -1},
        {"sliding_window": 8, "layer_types": ["full_attention"]},
        {"sliding_window": 8, "layer_types": ["full_attention"] * 3 + ["linear_attention"]},
        {"sliding_window": 8, "layer_types": "full_attention"},
        {"sliding_window": None, "layer_types": ["sliding_attention"] * 4},
    ],
)
def test_window_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match=r"sliding_window|layer"):
        parse_config(a_config("Qwen3ForCausalLM", use_sliding_window=True, **fields))


@pytest.mark.parametrize(("kind", "window"), [("sliding_attention", 8), ("full_attention", None)])
def test_mistral_may_say_its_window_once_more_per_layer(kind: str, window: int | None) -> None:
    fields = {"sliding_window": window, "layer_types": [kind] * 4}
    assert parse_config(a_config("MistralForCausalLM", **fields)).sliding_windows == (window,) * 4


def test_window_of_some_layers_is_refused_for_mistral() -> None:
    mixed = ["sliding_attention", "full_attention"] * 2
    with pytest.raises(CheckpointError, match="layer_types"):
        parse_config(a_config("MistralForCausalLM", sliding_window=8, layer_types=mixed))


def test_window_of_a_llama_is_refused() -> None:
    with pytest.raises(CheckpointError, match="sliding_window=8"):
        parse_config(a_config("LlamaForCausalLM", sliding_window=8))
    arch = parse_config(a_config("LlamaForCausalLM", sliding_window=None))
    assert arch.sliding_windows == (None,) * 4


@pytest.mark.parametrize("method", ["gptq", "awq", "fp8", "bitsandbytes"])
def test_quantized_checkpoint_is_refused_by_name(method: str) -> None:
    config = a_config("LlamaForCausalLM", quantization_config={"quant_method": method, "bits": 4})
    with pytest.raises(CheckpointError, match=f"quantization_config.*{method}"):
        parse_config(config)


@pytest.mark.parametrize(
    ("in_config", "in_generation_config", "expected"),
    [
        (2, {}, (2,)),
        (2, {"eos_token_id": [2, 7]}, (2, 7)),
        ([5, 3], {"eos_token_id": 9}, (5, 3, 9)),
        (None, {"eos_token_id": 9}, (9,)),
        (4, {"eos_token_id": None}, (4,)),
        (None, {}, ()),
    ],
)
def test_eos_ids_of_both_files_count(
    in_config: object, in_generation_config: dict[str, Any], expected: tuple[int, ...]
) -> None:
    arch = parse_config(a_config("LlamaForCausalLM", eos_token_id=in_config))
    assert eos_token_ids(arch, in_generation_config) == expected


def test_wrong_eos_id_of_the_generation_config_names_the_file() -> None:
    arch = parse_config(a_config("LlamaForCausalLM"))
    with pytest.raises(CheckpointError, match=r"generation_config.json: eos_token_id='</s>'"):
        eos_token_ids(arch, {"eos_token_id": "</s>"})


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"a": 1,}', b"\xff\xfe{}", b"[" * 100_000]
)
@pytest.mark.parametrize("read", [read_config, read_generation_config])
def test_file_that_is_no_json_object_is_named(read: Any, content: bytes, tmp_path: Path) -> None:
    for name in ("config.json", "generation_config.json"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        read(tmp_path)


def test_missing_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json does not exist"):
        read_config(tmp_path)
    with pytest.raises(CheckpointError, match=r"config\.json does not exist"):
        read_config(tmp_path / "no such folder")


def test_missing_generation_config_is_empty(tmp_path: Path) -> None:
    assert read_generation_config(tmp_path) == {}
