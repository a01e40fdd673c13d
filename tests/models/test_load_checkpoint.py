"""The loader with the real models and files that transformers saved."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from minivllm.attention.reference import ReferenceAttention
from minivllm.errors import CheckpointError
from minivllm.models.hf_config import parse_config, read_config
from minivllm.models.loader import destinations, init_dummy_weights, load_weights
from minivllm.models.registry import model_class
from minivllm.parallel import TensorParallel

SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.2,
}
MODELS: dict[str, dict[str, Any]] = {
    "qwen3": {"model_type": "qwen3", "head_dim": 16},
    "qwen3 tied": {"model_type": "qwen3", "head_dim": 16, "tie_word_embeddings": True},
    "qwen3 biases": {"model_type": "qwen3", "head_dim": 16, "attention_bias": True},
    "qwen2": {"model_type": "qwen2"},
    "qwen2 tied": {"model_type": "qwen2", "tie_word_embeddings": True},
    "llama": {"model_type": "llama"},
    "llama tied": {"model_type": "llama", "tie_word_embeddings": True},
    "llama biases": {"model_type": "llama", "attention_bias": True, "mlp_bias": True},
    "mistral": {"model_type": "mistral", "head_dim": 16},
}


def save_hf_model(fields: dict[str, Any], folder: Path, **save: Any) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(**{**SIZES, **fields})
    model = AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():  # biases start at 0 and norms at 1: hide no mix-up
        nn.init.normal_(parameter)
    model.save_pretrained(folder, **save)
    return model


def unloaded_model(folder: Path) -> nn.Module:
    """The package's model for the folder, every parameter NaN."""
    arch = parse_config(read_config(folder))
    model: nn.Module = model_class(arch.name)(arch, ReferenceAttention(), TensorParallel())
    for parameter in model.parameters():
        nn.init.constant_(parameter, torch.nan)
    return model


@pytest.mark.parametrize("save", [{}, {"max_shard_size": "10KB"}], ids=["one file", "shards"])
@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_every_parameter_is_set_and_equals_that_of_transformers(
    fields: dict[str, Any], save: dict[str, Any], tmp_path: Path
) -> None:
    expected = save_hf_model(fields, tmp_path, **save)
    assert len(list(tmp_path.glob("*.safetensors"))) > 3 or not save
    model = unloaded_model(tmp_path)
    load_weights(model, tmp_path, progress=False)
    for name, parameter in model.named_parameters():
        assert parameter.isfinite().all(), name
    loaded = destinations(model)
    wanted = dict(expected.named_parameters())  # a tied head comes once here too
    assert set(loaded) == set(wanted)
    for name, tensor in wanted.items():
        assert torch.equal(loaded[name], tensor), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_checkpoint_fills_a_float32_model(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    expected = save_hf_model(MODELS["llama"], tmp_path).to(dtype)
    expected.save_pretrained(tmp_path)
    model = unloaded_model(tmp_path)
    load_weights(model, tmp_path, progress=False)
    loaded = destinations(model)
    for name, tensor in expected.named_parameters():
        assert torch.equal(loaded[name], tensor.float()), name


def test_bias_tensors_of_a_family_without_bias_are_left_over(tmp_path: Path) -> None:
    save_hf_model(MODELS["llama biases"], tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(
        config.replace("LlamaFor", "MistralFor").replace('"llama"', '"mistral"')
    )
    with pytest.raises(CheckpointError, match=r"unexpected \(21\): .*bias"):
        load_weights(unloaded_model(tmp_path), tmp_path, progress=False)


def test_untied_config_needs_a_head_of_its_own(tmp_path: Path) -> None:
    save_hf_model(MODELS["qwen2 tied"], tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(
        config.replace('"tie_word_embeddings": true', '"tie_word_embeddings": false')
    )
    with pytest.raises(CheckpointError, match=r"missing \(1\): lm_head\.weight"):
        load_weights(unloaded_model(tmp_path), tmp_path, progress=False)


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_dummy_weights_fill_every_family(fields: dict[str, Any], tmp_path: Path) -> None:
    save_hf_model(fields, tmp_path)
    model = unloaded_model(tmp_path)
    init_dummy_weights(model, seed=0)
    for name, parameter in model.named_parameters():
        assert parameter.isfinite().all(), name
        assert bool((parameter == 1).all()) == name.endswith("norm.weight"), name
