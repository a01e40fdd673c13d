"""Draw docs/trace.svg: five requests that share a KV cache too small for all of them.

    python tools/draw_trace.py

The model has random weights, since only the plan is of interest here; it is the same on each run.
Prints the alternative text, which README.md repeats.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")  # draws into files only
from minivllm import LLM, SamplingParams
from minivllm.plots import plot_requests

TARGET = Path(__file__).resolve().parents[1] / "docs" / "trace.svg"
# Number of prompt tokens, number of new tokens.
REQUESTS = {"a": (6, 14), "b": (21, 8), "c": (3, 12), "d": (10, 5), "e": (4, 6)}


def main() -> None:
    """Run the requests and draw what the scheduler did."""
    with LLM(
        "dummy-qwen3",
        load_format="dummy",
        device="cpu",
        block_size=4,
        num_blocks=13,
        max_num_batched_tokens=12,
        max_model_len=64,
        trace=True,
    ) as llm:
        for number, (name, (num_prompt_tokens, max_tokens)) in enumerate(REQUESTS.items()):
            params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
            prompt = [number + 1] * num_prompt_tokens
            llm.engine.add_request(name, prompt, params)
        while llm.engine.has_unfinished_requests():
            llm.engine.step()
        assert llm.trace is not None, "the engine was built with trace=True"
        picture = plot_requests(llm.trace)
    matplotlib.rcParams["svg.hashsalt"] = "minivllm"
    picture.figure.savefig(TARGET, metadata={"Date": None})
    print(picture.alt)


if __name__ == "__main__":
    main()
