"""`python -m tools.checkpoint STAGE`: the stages that make the checkpoint, in order."""

from __future__ import annotations

import typer

app = typer.Typer(help="Make the checkpoint that ships, stage by stage.", add_completion=False)


@app.command()
def generate(model: str = "smollm2", first: int = 0, step: int = 1, minutes: float = 8) -> None:
    """1. Have SmolLM2 go on with stories, in shards FIRST, FIRST + STEP, ... (needs a GPU)."""
    from tools.checkpoint.generate import generate

    generate(model, first, step, minutes)


@app.command()
def filter() -> None:
    """2. Keep the best of what it wrote."""
    from tools.checkpoint.filter import filter_stories

    filter_stories()


@app.command()
def tokenizer(num_program_stories: int = 400_000, model_share: float = 0.05) -> None:
    """3. Add the program's stories, train the tokenizer, and write rows of token ids."""
    from tools.checkpoint.corpus import build_corpus

    build_corpus(num_program_stories, model_share)


@app.command()
def train(minutes: float = 8, num_steps: int = 3_000) -> None:
    """4. Train, or go on training (a GPU takes minutes)."""
    from tools.checkpoint.train import train

    train(minutes, num_steps)


@app.command()
def export() -> None:
    """5. Write the Hugging Face folder."""
    from tools.checkpoint.export import export

    export()


@app.command()
def evaluate() -> None:
    """6. Measure it and write samples."""
    from tools.checkpoint.evaluate import evaluate

    evaluate()


@app.command()
def speed() -> None:
    """7. Measure the speed on this machine's CPU."""
    from tools.checkpoint.card import measure_speed

    measure_speed()


@app.command()
def ship() -> None:
    """8. Copy the folder into the package, with the model card and the loss curves."""
    from tools.checkpoint.card import ship

    ship()


if __name__ == "__main__":
    app()
