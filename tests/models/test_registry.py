import subprocess
import sys

import pytest

from minivllm.errors import CheckpointError
from minivllm.models.hf_config import _DEFAULTS
from minivllm.models.registry import SUPPORTED, model_class


@pytest.mark.parametrize("name", SUPPORTED)
def test_class_has_the_name_that_the_checkpoint_asks_for(name: str) -> None:
    assert model_class(name).__name__ == name


@pytest.mark.parametrize(
    "name", ["GPT2LMHeadModel", "Qwen3Model", "qwen3", "", "Qwen3ForCausalLM "]
)
def test_unknown_architecture_is_refused_with_the_list(name: str) -> None:
    with pytest.raises(CheckpointError, match="not supported") as error:
        model_class(name)
    assert repr(name) in str(error.value)
    assert all(known in str(error.value) for known in SUPPORTED)


def test_every_supported_architecture_has_config_defaults() -> None:
    assert set(_DEFAULTS) == set(SUPPORTED)


def test_reading_a_config_loads_neither_torch_nor_transformers() -> None:
    code = (
        "import sys, minivllm.models.hf_config\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
