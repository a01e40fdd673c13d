"""The engine on a CPU: against transformers, and against its own matrix products (W7).

    python -m minivllm.bench.cpu_engine --json benchmarks/cpu_engine.json

Two measurements, each as the median of several runs with its spread:

- eight prompts of 16 to 256 tokens, 64 new tokens each, greedy: this engine and transformers'
  `generate` on a padded batch, in turn, so that a change in the machine's speed meets both;
- one decode step at several batch sizes beside the same step's matrix products alone, with the
  model's own weights and the layers' own way of multiplying.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from minivllm.bench.report import Row, Spread
from minivllm.hub import resolve_model
from minivllm.layers.linear import FusedLinear, RowParallelLinear, matmul
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams

PROMPT_LENS = (16, 32, 48, 64, 96, 128, 192, 256)
NUM_NEW_TOKENS = 64


def spread(seconds: list[float]) -> dict[str, float]:
    """Median, minimum and maximum."""
    return {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds)}


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compare_with_transformers(model: str, num_runs: int) -> dict[str, Any]:
    """Seconds for the eight prompts, here and in transformers, and the ratio of the medians."""
    from transformers import AutoModelForCausalLM

    generator = torch.Generator().manual_seed(0)
    prompts = [torch.randint(10, 10_000, (n,), generator=generator).tolist() for n in PROMPT_LENS]
    llm = LLM(model, dtype="float32", device="cpu", enable_prefix_caching=False)
    params = SamplingParams(temperature=0, max_tokens=NUM_NEW_TOKENS, ignore_eos=True)
    reference: Any = AutoModelForCausalLM.from_pretrained(resolve_model(model), dtype=torch.float32)
    width = max(PROMPT_LENS)
    input_ids = torch.zeros((len(prompts), width), dtype=torch.int64)
    attention_mask = torch.zeros_like(input_ids)
    for row, prompt in enumerate(prompts):
        input_ids[row, width - len(prompt) :] = torch.tensor(prompt)
        attention_mask[row, width - len(prompt) :] = 1

    def ours() -> list[list[int]]:
        outputs = llm.generate(prompts, params, use_tqdm=False)
        return [list(output.outputs[0].token_ids) for output in outputs]

    def theirs() -> list[list[int]]:
        with torch.inference_mode():
            tokens = reference.generate(
                input_ids,
                attention_mask=attention_mask,
                max_new_tokens=NUM_NEW_TOKENS,
                min_new_tokens=NUM_NEW_TOKENS,
                do_sample=False,
                pad_token_id=0,
            )
        rows: list[list[int]] = tokens[:, width:].tolist()
        return rows

    same = sum(a == b for a, b in zip(ours(), theirs(), strict=True))  # warms both up, too
    here, there = [], []
    for _ in range(num_runs):
        here.append(_seconds(ours))
        there.append(_seconds(theirs))
    num_tokens = len(prompts) * NUM_NEW_TOKENS
    return {
        "minivllm_seconds": spread(here),
        "transformers_seconds": spread(there),
        "minivllm_tokens_per_second": num_tokens / statistics.median(here),
        "transformers_tokens_per_second": num_tokens / statistics.median(there),
        "ratio": statistics.median(there) / statistics.median(here),
        "prompts_with_equal_tokens": f"{same} of {len(prompts)}",
    }


def decode_beside_matmuls(
    model: str, batch_size: int, prompt_len: int, num_runs: int
) -> dict[str, Any]:
    """Milliseconds of a decode step, and of its matrix products alone in two ways.

    As the layers multiply (`matmul`), and as PyTorch's own `F.linear` does.
    """
    llm = LLM(model, dtype="float32", device="cpu", enable_prefix_caching=False)
    engine = llm.engine
    num_steps = 8 * num_runs
    params = SamplingParams(temperature=0, max_tokens=num_steps + 2, ignore_eos=True)
    for number in range(batch_size):
        prompt = [10 + (number * 37 + place) % 9_000 for place in range(prompt_len)]
        engine.add_request(str(number), prompt, params, stream=False)
    worker: Any = engine.core.executor
    products = _matrix_products(worker.worker.runner.model, batch_size, matmul)
    linears = _matrix_products(worker.worker.runner.model, batch_size, F.linear)
    engine.step()  # the prompts
    while engine.core.scheduler.running[-1].num_computed_tokens < prompt_len:
        engine.step()
    steps: list[float] = []
    alone: list[float] = []
    as_linears: list[float] = []
    for _ in range(num_runs):
        alone.extend(_seconds(products) for _ in range(4))
        as_linears.extend(_seconds(linears) for _ in range(4))
        steps.extend(_seconds(engine.step) for _ in range(8))
    engine.abort([str(number) for number in range(batch_size)])
    step, matmuls = statistics.median(steps), statistics.median(alone)
    return {
        "batch_size": batch_size,
        "context": f"{prompt_len} prompt tokens and up to {num_steps} new ones",
        "step_ms": {name: 1e3 * value for name, value in spread(steps).items()},
        "matmuls_ms": {name: 1e3 * value for name, value in spread(alone).items()},
        "f_linear_ms": {name: 1e3 * value for name, value in spread(as_linears).items()},
        "tokens_per_second": batch_size / step,
        "share_of_matmuls": matmuls / step,
        "share_of_f_linear": statistics.median(as_linears) / step,
    }


def _matrix_products(
    model: torch.nn.Module, batch_size: int, multiply: Callable[[Tensor, Tensor], Tensor]
) -> Callable[[], None]:
    """A function that multiplies a batch with every weight that one step multiplies with."""
    kinds = (FusedLinear, RowParallelLinear)
    weights = [module.weight for module in model.modules() if isinstance(module, kinds)]
    head = "model.embed_tokens" if model.tie_word_embeddings else "lm_head"
    weights.append(model.get_submodule(head).get_parameter("weight"))
    inputs = {w.shape[1]: torch.randn(batch_size, w.shape[1]) for w in weights}

    @torch.inference_mode()
    def run() -> None:
        for weight in weights:
            multiply(inputs[weight.shape[1]], weight)

    return run


def memory_use(model: str) -> dict[str, int]:
    """Bytes of weights and KV cache, counted from the tensors that the engine holds."""
    llm = LLM(model, dtype="float32", device="cpu", num_blocks=512)
    executor: Any = llm.engine.core.executor
    runner = executor.worker.runner
    storages = {
        parameter.untyped_storage().data_ptr(): parameter.untyped_storage().nbytes()
        for parameter in runner.model.parameters()
    }
    pages = sum(page.nbytes for cache in runner.kv_caches for page in cache)
    return {
        "weight_bytes": sum(storages.values()),
        "kv_cache_bytes": pages,
        "kv_cache_bytes_computed": 512 * executor.worker.bytes_per_block,
    }


def run_cpu_benchmark(model: str, num_runs: int) -> dict[str, Any]:
    """Everything this file measures, ready for JSON."""
    torch.manual_seed(0)
    return {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "model": model,
        "against_transformers": compare_with_transformers(model, num_runs),
        "decode": [
            decode_beside_matmuls(model, batch_size, prompt_len, num_runs)
            for prompt_len in (16, 96)
            for batch_size in (1, 8, 32)
        ],
        "memory": memory_use(model),
    }


def cpu_tables(result: dict[str, Any]) -> dict[str, list[Row]]:
    """The figures as tables: title -> rows."""
    against = result["against_transformers"]
    engines: list[Row] = [
        {
            "engine": name,
            "seconds": Spread(**against[f"{name}_seconds"]),
            "tokens/s": against[f"{name}_tokens_per_second"],
        }
        for name in ("minivllm", "transformers")
    ]
    steps: list[Row] = [
        {
            "batch": step["batch_size"],
            "context": step["context"].partition(" ")[0],
            "step, ms": Spread(**step["step_ms"]),
            "its matrix products, ms": Spread(**step["matmuls_ms"]),
            "by F.linear, ms": Spread(**step["f_linear_ms"]),
        }
        for step in result["decode"]
    ]
    ratio = f"{against['ratio']:.2f} x transformers"
    return {f"Eight prompts, {NUM_NEW_TOKENS} new tokens: {ratio}": engines, "A decode step": steps}


def main() -> None:
    """Run everything and print it, or write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    text = json.dumps(run_cpu_benchmark(arguments.model, arguments.runs), indent=2)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
