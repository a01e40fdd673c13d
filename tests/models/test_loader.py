from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from minivllm.errors import CheckpointError
from minivllm.models import loader
from minivllm.models.loader import destinations, init_dummy_weights, load_weights


class FusedLinear(nn.Module):
    """As the fused layers of the package look from here: rows of one weight, by part."""

    def __init__(self, in_size: int, sizes: dict[str, int], bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(sum(sizes.values()), in_size))
        if bias:
            self.bias = nn.Parameter(torch.empty(sum(sizes.values())))
        self.part_rows: dict[str, slice] = {}
        start = 0
        for name, size in sizes.items():
            self.part_rows[name] = slice(start, start + size)
            start += size


class Layer(nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.qkv_proj = FusedLinear(4, {"q_proj": 4, "k_proj": 2, "v_proj": 2}, bias)
        self.o_proj = nn.Linear(4, 4, bias=False)
        self.input_layernorm = nn.LayerNorm(4, bias=False)


class Model(nn.Module):
    """The same names as a real model's, and small enough to write its files by hand."""

    def __init__(self, tied: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(7, 4)
        self.model.layers = nn.ModuleList([Layer(bias), Layer(bias)])
        self.lm_head = nn.Linear(4, 7, bias=False)
        if tied:
            self.lm_head.weight = self.model.embed_tokens.weight
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.fill_(torch.nan)


def a_checkpoint(model: nn.Module) -> dict[str, Tensor]:
    """Other numbers for every tensor."""
    generator = torch.Generator().manual_seed(0)
    return {n: torch.randn(t.shape, generator=generator) for n, t in destinations(model).items()}


def load(model: nn.Module, tensors: dict[str, Tensor], folder: Path) -> None:
    save_file(tensors, folder / "model.safetensors")
    load_weights(model, folder, progress=False)


def test_every_parameter_has_a_destination_and_fused_ones_have_their_parts() -> None:
    names = {"model.embed_tokens.weight", "lm_head.weight"}
    for layer in ("model.layers.0", "model.layers.1"):
        names |= {f"{layer}.o_proj.weight", f"{layer}.input_layernorm.weight"}
        for part in "qkv":
            names |= {f"{layer}.{part}_proj.weight", f"{layer}.{part}_proj.bias"}
    assert set(destinations(Model())) == names


def test_destinations_cover_every_number_of_the_model_exactly_once() -> None:
    model = Model()
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    for view in destinations(model).values():
        view += 1
    assert all((parameter == 1).all() for parameter in model.parameters())


def test_tied_weight_has_one_destination() -> None:
    names = destinations(Model(tied=True))
    assert "model.embed_tokens.weight" in names
    assert "lm_head.weight" not in names


def test_parts_that_leave_a_gap_are_our_mistake() -> None:
    layer = FusedLinear(4, {"q_proj": 4, "k_proj": 2}, bias=False)
    layer.part_rows["k_proj"] = slice(5, 6)
    with pytest.raises(AssertionError, match="cover"):
        destinations(nn.ModuleDict({"qkv_proj": layer}))


def test_fused_weight_is_its_parts_one_below_the_other(tmp_path: Path) -> None:
    model = Model()
    tensors = a_checkpoint(model)
    load(model, tensors, tmp_path)
    for kind in ("weight", "bias"):
        parts = [tensors[f"model.layers.1.{part}_proj.{kind}"] for part in "qkv"]
        fused = model.get_parameter(f"model.layers.1.qkv_proj.{kind}")
        assert torch.equal(fused, torch.cat(parts))
    assert torch.equal(model.lm_head.weight, tensors["lm_head.weight"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_are_converted_to_the_dtype_of_the_model(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    model = Model()
    tensors = {name: t.to(dtype) for name, t in a_checkpoint(model).items()}
    load(model, tensors, tmp_path)
    loaded = destinations(model)
    assert all(torch.equal(loaded[n], t.float()) for n, t in tensors.items())


def test_missing_and_unexpected_names_stand_in_one_error(tmp_path: Path) -> None:
    model = Model()
    tensors = a_checkpoint(model)
    tensors["model.layers.0.mlp.weight"] = tensors.pop("model.layers.1.k_proj.bias")
    with pytest.raises(CheckpointError) as error:
        load(model, tensors, tmp_path)
    assert "missing (1): model.layers.1.k_proj.bias" in str(error.value)
    assert "unexpected (1): model.layers.0.mlp.weight" in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_nothing_is_copied_when_the_names_do_not_fit(tmp_path: Path) -> None:
    model = Model()
    tensors = a_checkpoint(model)
    del tensors["lm_head.weight"]
    with pytest.raises(CheckpointError, match=r"missing \(1\): lm_head.weight"):
        load(model, tensors, tmp_path)
    assert all(parameter.isnan().all() for parameter in model.parameters())


def test_long_list_of_names_is_cut_with_a_count(tmp_path: Path) -> None:
    model = Model()
    tensors = a_checkpoint(model) | {f"extra.{i:02}": torch.ones(1) for i in range(25)}
    with pytest.raises(CheckpointError, match="unexpected") as error:
        load(model, tensors, tmp_path)
    assert "unexpected (25): extra.00" in str(error.value)
    assert "extra.09 and 15 more" in str(error.value)
    assert "extra.10" not in str(error.value)


@pytest.mark.parametrize("name", ["model.layers.0.q_proj.weight", "lm_head.weight"])
@pytest.mark.parametrize("shape", [[4, 5], [4], [1, 1], [4, 4, 1]])
def test_wrong_shape_is_named_with_both_shapes(name: str, shape: list[int], tmp_path: Path) -> None:
    model = Model()
    expected = list(destinations(model)[name].shape)
    with pytest.raises(CheckpointError, match="wrong shape") as error:
        load(model, a_checkpoint(model) | {name: torch.ones(shape)}, tmp_path)
    assert f"{name}: {shape} in the file, {expected} in the model" in str(error.value)


@pytest.mark.parametrize(
    ("dtype", "spelling"),
    [(torch.int8, "I8"), (torch.uint8, "U8"), (torch.float8_e4m3fn, "F8_E4M3")],
)
def test_quantized_numbers_are_refused_by_name(
    dtype: torch.dtype, spelling: str, tmp_path: Path
) -> None:
    model = Model()
    name = "model.layers.0.o_proj.weight"
    with pytest.raises(CheckpointError, match=f"no float format .*{name}: {spelling}"):
        load(model, a_checkpoint(model) | {name: torch.ones(4, 4).to(dtype)}, tmp_path)


def test_rotary_tables_of_old_checkpoints_are_left_alone(tmp_path: Path) -> None:
    model = Model()
    table = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(2)}
    load(model, a_checkpoint(model) | table, tmp_path)
    assert not any(parameter.isnan().any() for parameter in model.parameters())


@pytest.mark.parametrize("names", [["embed_tokens"], ["lm_head"], ["embed_tokens", "lm_head"]])
def test_tied_weight_is_found_under_either_name(names: list[str], tmp_path: Path) -> None:
    model = Model(tied=True)
    tensors = a_checkpoint(model)
    shared = tensors.pop("model.embed_tokens.weight")
    full = {"embed_tokens": "model.embed_tokens.weight", "lm_head": "lm_head.weight"}
    load(model, tensors | {full[name]: shared.clone() for name in names}, tmp_path)
    assert torch.equal(model.lm_head.weight, shared)


def test_head_that_differs_from_the_embedding_it_is_tied_to_is_refused(tmp_path: Path) -> None:
    model = Model(tied=True)
    head = {"lm_head.weight": torch.ones(7, 4)}
    with pytest.raises(CheckpointError, match=r"lm_head.*differs.*tie_word_embeddings"):
        load(model, a_checkpoint(model) | head, tmp_path)


def test_each_tensor_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    tensors = a_checkpoint(model)
    reads: list[str] = []
    original = loader.StoredTensor.read

    def recorded(self: Any) -> Tensor:
        reads.append(self.name)
        return original(self)

    monkeypatch.setattr(loader.StoredTensor, "read", recorded)
    load(model, tensors, tmp_path)
    assert sorted(reads) == sorted(tensors)


def test_dummy_weights_leave_nothing_unset_and_norms_are_one() -> None:
    model = Model()
    init_dummy_weights(model, seed=0)
    for name, tensor in destinations(model).items():
        assert tensor.isfinite().all(), name
        assert bool((tensor == 1).all()) == name.endswith("layernorm.weight"), name


def test_dummy_weights_depend_on_the_seed_and_the_name_only() -> None:
    first, again, without_bias, other = Model(), Model(), Model(bias=False), Model()
    init_dummy_weights(first, seed=1)
    init_dummy_weights(again, seed=1)
    init_dummy_weights(without_bias, seed=1)
    init_dummy_weights(other, seed=2)
    name = "model.layers.1.k_proj.weight"
    assert torch.equal(destinations(first)[name], destinations(again)[name])
    assert torch.equal(destinations(first)[name], destinations(without_bias)[name])
    assert not torch.equal(destinations(first)[name], destinations(other)[name])
    twin = "model.layers.0.k_proj.weight"
    assert not torch.equal(destinations(first)[name], destinations(first)[twin])


def test_dummy_weights_have_the_spread_that_is_asked_for() -> None:
    model = nn.ModuleDict({"big": nn.Linear(200, 200)})
    init_dummy_weights(model, seed=0, std=0.3)
    assert model["big"].weight.std().item() == pytest.approx(0.3, rel=0.02)
    assert model["big"].weight.mean().abs().item() < 0.01


def test_dummy_weights_do_not_depend_on_the_default_dtype() -> None:
    first, second = Model(), Model()
    init_dummy_weights(first, seed=3)
    torch.set_default_dtype(torch.bfloat16)
    try:
        init_dummy_weights(second, seed=3)
    finally:
        torch.set_default_dtype(torch.float32)
    for name, tensor in destinations(first).items():
        assert torch.equal(tensor, destinations(second)[name])


def test_dummy_weights_are_the_same_numbers_in_half_precision() -> None:
    full, half = Model(), Model().to(torch.bfloat16)
    init_dummy_weights(full, seed=3)
    init_dummy_weights(half, seed=3)
    for name, tensor in destinations(full).items():
        assert torch.equal(tensor.to(torch.bfloat16), destinations(half)[name])
