r"""Stage 3, tokenizer: both kinds of stories -> documents -> a tokenizer -> rows of token ids.

A story becomes a document in one of these forms, so that the model learns to go on with a text and
to answer a request:

    plain    Once upon a time ... The end.<|endoftext|>
    chat     <|im_start|>user\nTell me a story about ...<|im_end|>\n
             <|im_start|>assistant\nOnce upon a time ... The end.<|im_end|>\n
    turns    a chat with a second request and its story; some chats begin with a system message

Rows hold whole documents, one after the other, from the first token on; only the last one of a row
is cut. Next file to read: `train.py`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tools.checkpoint.common import (
    END_OF_TEXT,
    SEED,
    TURN_BEGIN,
    TURN_END,
    WORK,
    is_held_out,
    read_records,
    write_json,
)
from tools.checkpoint.filter import FILTERED
from tools.checkpoint.stories import ask, random_request, tell

VOCAB_SIZE = 4096
CONTEXT = 1024
NUM_PROGRAM_STORIES = 400_000
MODEL_SHARE = 0.05  # of the training stories are SmolLM2's, each as often as that takes
STORIES_PER_TASK = 2_000

TOKENIZER = WORK / "tokenizer"

SYSTEM_MESSAGES = (
    "You are a kind storyteller.",
    "You tell short stories to small children.",
    "You are a helpful assistant who tells stories.",
)
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

Story = dict[str, str]  # hero, thing, ask, story


def program_stories(task: int) -> list[Story]:
    """The stories of one task of our program: the same at each call."""
    rng = random.Random(f"{SEED}/program/{task}")
    stories = []
    for _ in range(STORIES_PER_TASK):
        request = random_request(rng)
        question, story = ask(request, rng), tell(request, rng)
        stories.append(
            {"hero": request.hero, "thing": request.thing, "ask": question, "story": story}
        )
    return stories


def model_stories() -> Iterator[Story]:
    """What is left of SmolLM2's, opening and continuation put together."""
    for record in read_records(FILTERED):
        same_paragraph = record["continuation"][:1].islower()
        story = record["opening"] + (" " if same_paragraph else "\n\n") + record["continuation"]
        yield {key: record[key] for key in ("hero", "thing", "ask")} | {"story": story}


def document(story: Story, another: Story, rng: random.Random) -> str:
    """The text that the model sees of a story; `another` is for a second turn."""
    form = rng.random()
    if form < 0.35:
        return story["story"] + END_OF_TEXT
    turns = [("user", story["ask"]), ("assistant", story["story"])]
    if form > 0.9:
        turns += [("user", another["ask"]), ("assistant", another["story"])]
    if rng.random() < 0.15:
        turns.insert(0, ("system", rng.choice(SYSTEM_MESSAGES)))
    return "".join(f"{TURN_BEGIN}{role}\n{words}{TURN_END}\n" for role, words in turns)


def split(stories: list[Story]) -> tuple[list[Story], list[Story]]:
    """Those to train on, and those held out."""
    train = [s for s in stories if not is_held_out(s["hero"], s["thing"])]
    held_out = [s for s in stories if is_held_out(s["hero"], s["thing"])]
    return train, held_out


def documents(stories: list[Story], seed: str) -> list[str]:
    """All stories as documents, in random order."""
    rng = random.Random(f"{SEED}/{seed}")
    shuffled = rng.sample(stories, len(stories))
    return [document(s, rng.choice(stories), rng) for s in shuffled]


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE of `VOCAB_SIZE` tokens over `texts`, saved with its chat template."""
    bpe = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[END_OF_TEXT, TURN_BEGIN, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        extra_special_tokens=[TURN_BEGIN],
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.save_pretrained(TOKENIZER)
    return tokenizer


def pack(texts: list[str], tokenizer: PreTrainedTokenizerFast) -> np.ndarray[Any, Any]:
    """Rows of `CONTEXT + 1` token ids, each from the beginning of a document on."""
    rows, row = [], []
    for start in range(0, len(texts), 10_000):
        for ids in tokenizer(texts[start : start + 10_000]).input_ids:
            row += ids
            if len(row) > CONTEXT:
                rows.append(np.array(row[: CONTEXT + 1], np.uint16))
                row = []
    return np.stack(rows)


def build_corpus(
    num_program_stories: int = NUM_PROGRAM_STORIES, model_share: float = MODEL_SHARE
) -> None:
    """Write the tokenizer, the rows of each split, and a report of the amounts."""
    tasks = range(num_program_stories // STORIES_PER_TASK)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        program = [story for stories in pool.map(program_stories, tasks) for story in stories]
    train, held_out = split(program)
    model_train, model_held_out = split(list(model_stories()))
    wanted = round(len(train) * model_share / (1 - model_share))
    repeated = [model_train[i % len(model_train)] for i in range(wanted)]

    texts = documents(train + repeated, "train")
    tokenizer = train_tokenizer(texts[:60_000])
    splits = {
        "train": pack(texts, tokenizer),
        "held_out_program": pack(documents(held_out, "held out")[:4_000], tokenizer),
        "held_out_model": pack(documents(model_held_out, "held out"), tokenizer),
    }
    for name, rows in splits.items():
        np.save(WORK / f"{name}.npy", rows)
    report = {
        "share of SmolLM2's stories": model_share,
        "program stories": {"train": len(train), "held out": len(held_out)},
        "model stories": {"train": len(model_train), "held out": len(model_held_out)},
        "times that a model story is seen where a program story is seen once": round(
            wanted / len(model_train), 1
        ),
        "tokens": {name: int(rows.size) for name, rows in splits.items()},
        "words per token": round(
            sum(len(t.split()) for t in texts[:2000])
            / sum(len(ids) for ids in tokenizer(texts[:2000]).input_ids),
            3,
        ),
    }
    write_json(WORK / "corpus.report.json", report)
    print(report)
