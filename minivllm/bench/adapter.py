"""Adapters: how a benchmark drives an engine, this one or another.

An adapter is a module with one function, `build(folder, settings)`. Ours is this file; those of
other engines lie in `benchmarks/adapters/` and are named, or given as a file.
Next file to read: `throughput.py`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import minivllm
from minivllm.errors import ConfigError
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams

_FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "adapters"


@dataclass(frozen=True)
class Generation:
    """How one prompt is continued: by so many tokens, whatever they are; temperature 0 is greedy.

    No text is made of them.
    """

    num_tokens: int
    temperature: float


class Engine(Protocol):
    """A model, ready to generate.

    Attributes:
        name: The engine's, with its version.
    """

    name: str

    def generate(
        self, prompts: Sequence[Sequence[int]], generations: Sequence[Generation]
    ) -> Sequence[Sequence[int]]:
        """The new tokens of each prompt, all in one batch; returns when the last one is there."""

    def close(self) -> None:
        """Give back what it holds, as far as it can."""


class Build(Protocol):
    """How an adapter makes its engine."""

    def __call__(self, folder: str, settings: Mapping[str, Any]) -> Engine:
        """The engine.

        Args:
            folder: Of the model: config.json and a tokenizer, with or without weights.
            settings: What is asked of it, in vLLM's spelling (`minivllm/config.py`); what an engine
                does not have it leaves out.
        """


def find_adapter(name: str) -> Build:
    """What builds the engine of that name, or the one that a file is for.

    Raises:
        ConfigError: There is none, or the engine is not installed.
    """
    if name == "minivllm":
        return build
    path = Path(name) if name.endswith(".py") else _FOLDER / f"{name.replace('-', '_')}.py"
    if not path.is_file():
        known = ", ".join(sorted(["minivllm", *(file.stem for file in _FOLDER.glob("*.py"))]))
        raise ConfigError(f"engine={name!r} has no adapter {path}: use {known}, or a file")
    spec = importlib.util.spec_from_file_location(f"minivllm_adapter_{path.stem}", path)
    assert spec is not None, "a file that ends in .py has a loader"
    assert spec.loader is not None, "and so does its spec"
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise ConfigError(f"engine={name!r} is not installed here: {error}") from error
    return cast(Build, module.build)


def build(folder: str, settings: Mapping[str, Any]) -> Engine:
    """See `Build`."""
    return _MiniVLLM(LLM(folder, **settings))


class _MiniVLLM:
    name = f"minivllm {minivllm.__version__}"

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def generate(
        self, prompts: Sequence[Sequence[int]], generations: Sequence[Generation]
    ) -> Sequence[Sequence[int]]:
        params = [
            SamplingParams(
                temperature=each.temperature,
                max_tokens=each.num_tokens,
                ignore_eos=True,
                detokenize=False,
            )
            for each in generations
        ]
        outputs = self._llm.generate(prompts, params, use_tqdm=False)
        return [output.outputs[0].token_ids for output in outputs]

    def close(self) -> None:
        self._llm.shutdown()
