"""nano-vllm, for `minivllm bench throughput` and `latency --engine nano-vllm`.

It is no package: `--set checkout=FOLDER` says where its repository lies. It needs flash-attn.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from minivllm.bench.adapter import Generation
from minivllm.errors import ConfigError


def build(folder: str, settings: Mapping[str, Any]) -> NanoVLLM:
    """See `minivllm.bench.adapter.Build`.

    Raises:
        ConfigError: No checkout is given.
    """
    if not settings.get("checkout"):
        raise ConfigError("nano-vllm is no package: add --set checkout=FOLDER of its repository")
    sys.path.insert(0, str(settings["checkout"]))
    return NanoVLLM(folder, settings)


class NanoVLLM:
    """nano-vllm's `LLM`."""

    def __init__(self, folder: str, settings: Mapping[str, Any]) -> None:
        from nanovllm import LLM
        from nanovllm.config import Config

        command = ["git", "-C", str(settings["checkout"]), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        self.name = f"nano-vllm {commit}"
        known = {field.name for field in fields(Config)} - {"model"}
        given = {name: settings[name] for name in known & settings.keys()}
        self._llm = LLM(folder, **{k: v for k, v in given.items() if v is not None})
        if settings["load_format"] == "dummy":  # it leaves weights that no file has as they come
            for parameter in self._llm.model_runner.model.parameters():
                parameter.data.normal_(0, 0.02)

    def generate(
        self, prompts: Sequence[Sequence[int]], generations: Sequence[Generation]
    ) -> Sequence[Sequence[int]]:
        """See `minivllm.bench.adapter.Engine`; it makes text as well, which can't be turned off."""
        from nanovllm import SamplingParams

        params = [
            SamplingParams(
                temperature=max(each.temperature, 1e-5),  # it refuses 0
                max_tokens=each.num_tokens,
                ignore_eos=True,
            )
            for each in generations
        ]
        outputs = self._llm.generate([list(prompt) for prompt in prompts], params, use_tqdm=False)
        return [output["token_ids"] for output in outputs]

    def close(self) -> None:
        """Let it end its processes when Python ends, as it does."""
