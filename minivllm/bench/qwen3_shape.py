"""A folder with the shape of Qwen3-0.6B and no weights: the model of the GPU's workloads.

Random weights give the speed of real ones, and nothing has to be fetched.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from minivllm.hub import resolve_model

QWEN3_SHAPE = "qwen3-0.6b-shape"

_SIZES = {
    "vocab_size": 151_936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40_960,
    "torch_dtype": "bfloat16",
}


@contextmanager
def model_folder(name: str) -> Iterator[str]:
    """The folder of the model called `name`; for `QWEN3_SHAPE` one that goes away again.

    Its tokenizer is that of `dummy-qwen3`, of 259 tokens: prompts are given as token ids, and no
    text is made of what comes.
    """
    if name != QWEN3_SHAPE:
        yield str(resolve_model(name))
        return
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / QWEN3_SHAPE
        shutil.copytree(resolve_model("dummy-qwen3"), folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | _SIZES, indent=2))
        yield str(folder)
