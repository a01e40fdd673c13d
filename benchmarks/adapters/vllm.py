"""vLLM, for `minivllm bench throughput` and `latency --engine vllm`.

With VLLM_ENABLE_V1_MULTIPROCESSING=0 in the environment its engine runs in this process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from minivllm.bench.adapter import Generation


def build(folder: str, settings: Mapping[str, Any]) -> VLLM:
    """See `minivllm.bench.adapter.Build`; the settings have vLLM's own names."""
    given = {name: value for name, value in settings.items() if value is not None}
    given.pop("device", None)
    return VLLM(folder, given)


class VLLM:
    """vLLM's `LLM`."""

    name = f"vLLM {version('vllm')}"

    def __init__(self, folder: str, settings: Mapping[str, Any]) -> None:
        from vllm import LLM

        self._llm = LLM(model=folder, **settings)

    def generate(
        self, prompts: Sequence[Sequence[int]], generations: Sequence[Generation]
    ) -> Sequence[Sequence[int]]:
        """See `minivllm.bench.adapter.Engine`."""
        from vllm import SamplingParams

        params = [
            SamplingParams(
                temperature=each.temperature,
                max_tokens=each.num_tokens,
                ignore_eos=True,
                detokenize=False,
            )
            for each in generations
        ]
        inputs = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        outputs = self._llm.generate(inputs, params, use_tqdm=False)
        return [output.outputs[0].token_ids for output in outputs]

    def close(self) -> None:
        """Drop the engine."""
        del self._llm
