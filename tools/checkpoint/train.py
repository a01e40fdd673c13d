"""Stage 4, train: a Qwen3 of seven million parameters on the rows of the corpus.

AdamW with one warm-up and one cosine, bfloat16 autocast over float32 weights, the whole model
compiled. The state is saved every few hundred steps, and a run that was stopped goes on from it
with the same rows. Next file to read: `export.py`.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import Qwen3Config, Qwen3ForCausalLM

from tools.checkpoint.common import SEED, WORK, write_json
from tools.checkpoint.corpus import CONTEXT, VOCAB_SIZE

STATE, HISTORY = WORK / "train_state.pt", WORK / "history.json"
HELD_OUT = ("held_out_program", "held_out_model")

NUM_STEPS = 3_000
ROWS_PER_STEP = 128
PEAK_RATE, WARM_UP = 3e-3, 150
WEIGHT_DECAY, CLIP = 0.1, 1.0
SAVE_EVERY, LOOK_EVERY = 500, 100

CONFIG: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": CONTEXT,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "bos_token_id": None,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def learning_rate(step: int, num_steps: int = NUM_STEPS) -> float:
    """Up in a straight line for `WARM_UP` steps, then down along half a cosine, to a hundredth."""
    if step < WARM_UP:
        return PEAK_RATE * (step + 1) / WARM_UP
    done = (step - WARM_UP) / max(1, num_steps - WARM_UP)
    return PEAK_RATE * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))


def rows_of_step(step: int, num_rows: int) -> np.ndarray[Any, Any]:
    """Which rows a step takes: each pass over them is in an order of its own."""
    per_pass = num_rows // ROWS_PER_STEP
    order = np.random.default_rng([SEED, step // per_pass]).permutation(num_rows)
    start = step % per_pass * ROWS_PER_STEP
    return order[start : start + ROWS_PER_STEP]


def make_optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    """AdamW; norms have no weight decay."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": WEIGHT_DECAY},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.95), fused=True)


def mean_loss(model: Any, rows: Tensor) -> Tensor:
    """Nats per token of the rows, each token from those before it."""
    with torch.autocast(rows.device.type, torch.bfloat16):
        logits = model(input_ids=rows[:, :-1], use_cache=False).logits
    return F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())


@torch.no_grad()
def held_out_losses(model: Any, device: torch.device) -> dict[str, float]:
    """The loss on each held-out split, in nats per token."""
    losses = {}
    for name in HELD_OUT:
        rows = torch.from_numpy(np.load(WORK / f"{name}.npy").astype(np.int64))
        rows = rows[: len(rows) // 16 * 16 or len(rows)]
        parts = [mean_loss(model, part.to(device)).item() for part in rows.split(16)]
        losses[name] = sum(parts) / len(parts)
    return losses


def train(minutes: float, num_steps: int = NUM_STEPS, state_path: Path = STATE) -> None:
    """Train up to step `num_steps`, or until the time is up; call again to go on."""
    deadline = time.monotonic() + 60 * minutes
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("high")
    model: Any = Qwen3ForCausalLM(Qwen3Config(**CONFIG))
    model.to(device)
    optimizer = make_optimizer(model)
    step, history = 0, []
    if state_path.exists():
        state = torch.load(state_path, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step, history = state["step"], state["history"]
    compiled = torch.compile(model) if device.type == "cuda" else model
    all_rows = torch.from_numpy(np.load(WORK / "train.npy").astype(np.int32)).to(device)
    start = time.monotonic()

    while step < num_steps and time.monotonic() < deadline:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, num_steps)
        rows = all_rows[torch.from_numpy(rows_of_step(step, len(all_rows)))].long()
        loss = mean_loss(compiled, rows)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step % LOOK_EVERY == 0 or step == num_steps:
            look = {"step": step, "train": loss.item(), **held_out_losses(model, device)}
            history.append(look)
            print({**look, "seconds": round(time.monotonic() - start, 1)}, flush=True)
        if step % SAVE_EVERY == 0 or step == num_steps:
            _save(state_path, model, optimizer, step, history)
    _save(state_path, model, optimizer, step, history)


def _save(
    path: Path,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    step: int,
    history: list[dict[str, float]],
) -> None:
    """Replace the saved state, and the losses as JSON beside it."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    temporary = path.with_suffix(".part")
    torch.save(state | {"step": step, "history": history}, temporary)
    temporary.replace(path)
    write_json(HISTORY, history)
