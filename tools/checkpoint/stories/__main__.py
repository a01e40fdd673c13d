"""Print sample stories with their requests: `python -m tools.checkpoint.stories --count 20`."""

from __future__ import annotations

import argparse
import random

from tools.checkpoint.stories.request import ask, random_request
from tools.checkpoint.stories.story import tell_with_plot


def main() -> None:
    """Draw requests and tell a story for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="stories to print")
    parser.add_argument("--seed", type=int, default=1, help="seed of the only source of chance")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    for _ in range(args.count):
        request = random_request(rng)
        question = ask(request, rng)
        plot, story = tell_with_plot(request, rng)
        print(f"[{plot}] {question}\n\n{story}\n\n{'-' * 60}\n")


if __name__ == "__main__":
    main()
