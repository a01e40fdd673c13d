"""Drives the planner at random for as many steps as you like: `python tools/fuzz_planner.py`.

Every step is checked as in `tests/core/test_state_machine.py`, whose harness this shares
(`tests/helpers/planner.py`). A failure prints the seed that shows it again:
`python tools/fuzz_planner.py --seed SEED --steps 1`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from planner import Counts, PlannerHarness, PlannerSettings  # noqa: E402

from minivllm.sampling_params import SamplingParams  # noqa: E402

SHARED = random.Random(0).choices(range(6), k=48)  # what prompts have in common
REQUEST_IDS = [f"r{i}" for i in range(16)]  # few, so that ids are used again


def random_prompt(rng: random.Random, harness: PlannerHarness) -> list[int]:
    """Part of the shared prompt and a tail, or what another request said so far."""
    longest = harness.settings.max_model_len - 1
    if harness.live and rng.random() < 0.2:
        other = rng.choice(list(harness.live.values()))
        return other.request.token_ids[:longest]
    shared = SHARED[: rng.randint(0, rng.choice([4, 4, longest]))]
    return (shared + rng.choices(range(6), k=rng.randint(0, 4)))[:longest] or [0]


def random_params(rng: random.Random) -> SamplingParams:
    """Mostly long outputs: they are what makes blocks run out."""
    return SamplingParams(
        max_tokens=rng.choice([None, None, 1, 2, 12, 24]),
        stop_token_ids=rng.sample(range(6), rng.choice([0, 0, 0, 1])),
        ignore_eos=rng.random() < 0.8,
    )


def act(harness: PlannerHarness, rng: random.Random) -> None:
    """One thing that a user, or a failing machine, may do."""
    dice = rng.random()
    if dice < 0.25 and len(harness.live) < len(REQUEST_IDS):
        unused = [name for name in REQUEST_IDS if name not in harness.live]
        request_id = rng.choice(unused if rng.random() < 0.95 else REQUEST_IDS)
        harness.add(random_prompt(rng, harness), random_params(rng), rng.randint(-1, 1), request_id)
    elif dice < 0.28:
        harness.abort(rng.sample(REQUEST_IDS, rng.randint(1, 3)))
    elif dice < 0.29:
        harness.reset_prefix_cache()
    elif dice < 0.30:
        where = rng.choice(["schedule", "execute", "update"])
        harness.fail_step(where, rng.randint(0, 600))
    else:
        harness.step()


def run_one(seed: int, counts: Counts) -> None:
    """A planner with random settings, from its first request until all have ended."""
    rng = random.Random(seed)
    harness = PlannerHarness(PlannerSettings.draw(rng), counts)
    try:
        for _ in range(rng.randint(50, 400)):
            act(harness, rng)
        harness.drain()
    except BaseException:
        print(f"seed {seed} failed with {harness.settings}", file=sys.stderr)
        raise


def main() -> None:
    """Run seed after seed until enough steps were made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first planner")
    parser.add_argument("--json", type=Path, help="where to write the closing figures")
    args = parser.parse_args()

    counts, seed, start, reported = Counts(), args.seed, time.perf_counter(), 0
    while counts.steps < args.steps:
        run_one(seed, counts)
        seed += 1
        if counts.steps >= reported + 50_000:
            reported = counts.steps
            print(f"{time.perf_counter() - start:6.0f} s  {counts}", flush=True)
    seconds = time.perf_counter() - start
    figures = {**asdict(counts), "planners": seed - args.seed, "seconds": round(seconds, 1)}
    print("ok: " + ", ".join(f"{value} {name}" for name, value in figures.items()))
    if args.json is not None:
        args.json.write_text(json.dumps({"first_seed": args.seed, **figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
