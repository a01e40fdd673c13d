"""Stage 6, evaluate: what the exported checkpoint can do, in numbers and in samples.

Everything is written by minivllm itself, for requests whose pair of words was held out.
Next file to read: `card.py`, which puts the results into the model card.
"""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F
from transformers import Qwen3ForCausalLM

from minivllm import LLM, SamplingParams
from minivllm.outputs import RequestOutput
from tools.checkpoint.baselines import NGramModel, longest_copies
from tools.checkpoint.common import SEED, WORK, is_held_out, write_json
from tools.checkpoint.export import EXPORTED
from tools.checkpoint.stories import Request, ask, random_request
from tools.checkpoint.train import HELD_OUT

RESULTS = WORK / "evaluation.json"
NUM_CHATS, NUM_COPIES, NUM_SAMPLES, MAX_TOKENS = 200, 100, 20, 250
OPENINGS = (
    "Once upon a time",
    "Once upon a time there was a little bear who",
    "One sunny morning",
    "There was once a girl named Mia who",
    "Every day after breakfast,",
    "It was a windy day.",
    "The old farmer had",
    "A small frog lived by the pond.",
    "\"Look!\" said the boy.",
    "One night, when everybody was asleep,",
)  # fmt: skip
SAMPLING = SamplingParams(temperature=0.8, max_tokens=MAX_TOKENS, seed=SEED)


def held_out_requests(count: int, seed: str) -> list[tuple[Request, str]]:
    """Requests, and the words they are asked in, none of whose stories was trained on."""
    rng = random.Random(f"{SEED}/{seed}")
    found: list[tuple[Request, str]] = []
    while len(found) < count:
        request = random_request(rng)
        if is_held_out(request.hero, request.thing):
            found.append((request, ask(request, rng)))
    return found


def model_losses(folder: Path) -> dict[str, float]:
    """Nats per token of the exported weights on each held-out split, computed in float32."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.to(device)
    losses = {}
    for name in HELD_OUT:
        rows = torch.from_numpy(np.load(WORK / f"{name}.npy").astype(np.int64)).to(device)
        with torch.no_grad():
            parts = [
                F.cross_entropy(model(row[None, :-1]).logits[0].float(), row[1:]).item()
                for row in rows
            ]
        losses[name] = sum(parts) / len(parts)
    return losses


def losses(folder: Path) -> dict[str, dict[str, float]]:
    """Loss and perplexity a token on each held-out split: unigram, trigram, ours."""
    train = np.load(WORK / "train.npy")
    ours = model_losses(folder)
    table: dict[str, dict[str, float]] = {}
    for name in HELD_OUT:
        rows = np.load(WORK / f"{name}.npy")
        found = {f"{order}-gram": NGramModel(train, order).loss(rows) for order in (1, 3)}
        for model, loss in {**found, "ours": ours[name]}.items():
            table.setdefault(name, {})[f"{model} loss"] = round(loss, 3)
            table[name][f"{model} perplexity"] = round(math.exp(loss), 2)
    return table


def chat_measures(requests: list[Request], outputs: list[RequestOutput]) -> dict[str, float]:
    """Shares of the answers that have both words, and that end by themselves."""
    texts = [output.output_text for output in outputs]
    both = [r.hero in t and r.thing in t for r, t in zip(requests, texts, strict=True)]
    ended = [output.outputs[0].finish_reason == "stop" for output in outputs]
    lengths = [len(output.outputs[0].token_ids) for output in outputs]
    return {
        "answers": len(outputs),
        "both words": sum(both) / len(both),
        f"end within {MAX_TOKENS} tokens": sum(ended) / len(ended),
        "median tokens": float(np.median(lengths)),
        "distinct-3": distinct_3(texts),
    }


def distinct_3(texts: list[str]) -> float:
    """Distinct trigrams of words among all trigrams of the texts."""
    trigrams = []
    for text in texts:
        words = text.split()
        trigrams += list(zip(words, words[1:], words[2:], strict=False))
    return round(len(set(trigrams)) / len(trigrams), 3)


def evaluate(folder: Path = EXPORTED) -> None:
    """Write `evaluation.json`."""
    requests = held_out_requests(NUM_CHATS, "evaluate")
    with LLM(str(folder), dtype="float32", seed=SEED) as llm:
        chats = [[{"role": "user", "content": question}] for _, question in requests]
        answers = llm.chat(chats, SAMPLING, use_tqdm=False)
        told = llm.generate(list(OPENINGS), SAMPLING, use_tqdm=False)
    num_chats = NUM_SAMPLES - len(OPENINGS)
    samples = [
        {"prompt": question, "text": answer.output_text}
        for (_, question), answer in zip(requests[:num_chats], answers[:num_chats], strict=True)
    ]
    samples += [
        {"prompt": opening, "text": opening + output.output_text}
        for opening, output in zip(OPENINGS, told, strict=True)
    ]
    copied = longest_copies(
        np.load(WORK / "train.npy"), [a.outputs[0].token_ids for a in answers[:NUM_COPIES]]
    )
    results = {
        "held out": losses(folder),
        "chat": chat_measures([request for request, _ in requests], answers),
        "copied": copied,
        "samples": samples,
    }
    write_json(RESULTS, results)
    print({name: value for name, value in results.items() if name != "samples"})
