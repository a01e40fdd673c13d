"""transformers' `generate`, for `minivllm bench throughput` and `latency --engine transformers`.

One padded batch: every prompt is as long as the longest, and every output too. What is beyond a
prompt's own length is cut off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import torch

from minivllm.bench.adapter import Generation
from minivllm.worker.worker import resolve_device, resolve_dtype


def build(folder: str, settings: Mapping[str, Any]) -> Transformers:
    """See `minivllm.bench.adapter.Build`; only device, dtype and load_format count."""
    return Transformers(folder, settings)


class Transformers:
    """A model of transformers."""

    name = f"transformers {version('transformers')}, generate"

    def __init__(self, folder: str, settings: Mapping[str, Any]) -> None:
        from transformers import AutoConfig, AutoModelForCausalLM

        self._device = resolve_device(settings["device"])
        dtype = resolve_dtype(settings["dtype"], self._device)
        with self._device:
            if settings["load_format"] == "dummy":
                config = AutoConfig.from_pretrained(folder)
                model: Any = AutoModelForCausalLM.from_config(config, dtype=dtype)
            else:
                model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        self._model: Any = model.to(self._device).eval()

    def generate(
        self, prompts: Sequence[Sequence[int]], generations: Sequence[Generation]
    ) -> Sequence[Sequence[int]]:
        """See `minivllm.bench.adapter.Engine`; the first temperature is everybody's."""
        width = max(map(len, prompts))
        rows = [[0] * (width - len(prompt)) + list(prompt) for prompt in prompts]
        real = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        num_new = max(each.num_tokens for each in generations)
        temperature = generations[0].temperature
        sampling = {"temperature": temperature} if temperature > 0 else {}
        with torch.inference_mode():
            found = self._model.generate(
                torch.tensor(rows, device=self._device),
                attention_mask=torch.tensor(real, device=self._device),
                max_new_tokens=num_new,
                min_new_tokens=num_new,
                do_sample=temperature > 0,
                pad_token_id=0,
                **sampling,
            )
        new = found[:, width:].tolist()
        return [row[: each.num_tokens] for row, each in zip(new, generations, strict=True)]

    def close(self) -> None:
        """Drop the model."""
        del self._model
