"""Stage 7, ship: the exported folder, the loss curves and the model card, into the package.

Every number in the card is read from the reports that the stages wrote.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import matplotlib
import torch

from minivllm import LLM, SamplingParams
from tools.checkpoint.common import ASSETS, NAME, SEED, WORK, write_json
from tools.checkpoint.corpus import CONTEXT, VOCAB_SIZE
from tools.checkpoint.evaluate import RESULTS
from tools.checkpoint.export import EXPORTED
from tools.checkpoint.generate import SAMPLING as WRITING
from tools.checkpoint.train import CONFIG, HISTORY, NUM_STEPS, PEAK_RATE, ROWS_PER_STEP

SPEED = WORK / "speed.json"
_SPLITS = {
    "held_out_program": "held-out stories of the program",
    "held_out_model": "held-out stories of SmolLM2",
}
TEMPLATE = Path(__file__).with_name("card_template.md")


def measure_speed(folder: Path = EXPORTED, num_tokens: int = 200) -> None:
    """Write how many tokens a second this machine's CPU makes, alone and 16 at once."""
    params = SamplingParams(temperature=0.8, max_tokens=num_tokens, ignore_eos=True, seed=SEED)
    found: dict[str, float] = {"threads": torch.get_num_threads()}
    with LLM(str(folder), device="cpu", dtype="float32") as llm:
        for batch in (1, 16):
            prompts = ["Once upon a time"] * batch
            llm.generate(prompts, params, use_tqdm=False)  # warms up
            start = time.perf_counter()
            llm.generate(prompts, params, use_tqdm=False)
            found[f"batch {batch}"] = round(batch * num_tokens / (time.perf_counter() - start))
    write_json(SPEED, found)
    print(found)


def draw_losses(path: Path) -> None:
    """The loss on the training rows and on both held-out splits, over steps."""
    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    history = json.loads(HISTORY.read_text())
    steps = [look["step"] for look in history]
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for name, label, style in (
        ("train", "training rows", "-"),
        ("held_out_program", "held out, the program's", "--"),
        ("held_out_model", "held out, SmolLM2's", ":"),
    ):
        axes.plot(steps, [look[name] for look in history], style, color="black", label=label)
    axes.set(xlabel="step", ylabel="loss (nats per token)", yscale="log")
    ticks = (0.4, 0.6, 1, 1.5, 2, 3)
    axes.set_yticks(ticks, map(str, ticks))
    axes.minorticks_off()
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def card() -> str:
    """The model card: the template with the reports' numbers."""
    results = json.loads(RESULTS.read_text())
    report = {
        "name": NAME,
        "parameters": _number_of_parameters(),
        "megabytes": round((EXPORTED / "model.safetensors").stat().st_size / 1e6, 1),
        "vocab_size": VOCAB_SIZE,
        "context": CONTEXT,
        "seed": SEED,
        "steps": NUM_STEPS,
        "tokens_per_step": ROWS_PER_STEP * CONTEXT,
        "rate": PEAK_RATE,
        "temperature": WRITING.temperature,
        "top_p": WRITING.top_p,
        "n": WRITING.n,
        "filter_table": _filter_table(),
        "corpus": json.loads((WORK / "corpus.report.json").read_text()),
        "config": CONFIG,
        "loss_table": _loss_table(results["held out"]),
        "chat": results["chat"],
        "copied": results["copied"],
        "speed": json.loads(SPEED.read_text()),
        "samples": _samples(results["samples"]),
    }
    return TEMPLATE.read_text().format(**report)


def ship() -> None:
    """Write everything into the package's assets."""
    folder = ASSETS / NAME
    shutil.copytree(EXPORTED, folder, dirs_exist_ok=True)
    draw_losses(folder / "loss.svg")
    (folder / "README.md").write_text(card(), encoding="utf-8")
    print(f"{sum(f.stat().st_size for f in folder.iterdir()) / 1e6:.1f} MB in {folder}")


def _number_of_parameters() -> int:
    from safetensors import safe_open

    with safe_open(EXPORTED / "model.safetensors", "pt") as file:
        return sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118


def _filter_table() -> str:
    report: dict[str, Any] = json.loads((WORK / "filtered.report.json").read_text())
    rows = [("requests", report["requests"]), ("continuations written", report["continuations"])]
    broken = dict(report["first rule broken"])
    passed = broken.pop("passed")
    rows += [(f"left out by the rule: {rule}", count) for rule, count in broken.items()]
    rows += [("passed every rule", passed)]
    rows += [(k, report[k]) for k in ("best of their request", "kept, without near-duplicates")]
    return "\n".join(f"| {name} | {count:,} |" for name, count in rows)


def _loss_table(table: dict[str, dict[str, float]]) -> str:
    lines = []
    for split, found in table.items():
        cells = [
            f"{found[f'{model} loss']:.3f} / {found[f'{model} perplexity']:.2f}"
            for model in ("1-gram", "3-gram", "ours")
        ]
        lines.append(f"| {_SPLITS[split]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _samples(samples: list[dict[str, str]]) -> str:
    parts = []
    for number, sample in enumerate(samples, start=1):
        quoted = "\n".join(f"> {line}".rstrip() for line in sample["text"].splitlines())
        parts.append(f"{number}. `{sample['prompt']}`\n\n{quoted}\n")
    return "\n".join(parts)
