"""From stories to rows: the split, the documents, the tokenizer, the packing."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import numpy as np
import pytest

from tools.checkpoint import common, corpus
from tools.checkpoint.common import END_OF_TEXT, TURN_BEGIN, TURN_END, is_held_out

STORIES = corpus.program_stories(0)[:400]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "TOKENIZER", tmp_path_factory.mktemp("tokenizer"))
        patch.setattr(corpus, "VOCAB_SIZE", 600)
        return corpus.train_tokenizer(corpus.documents(STORIES, "test"))


def test_no_pair_of_words_is_on_both_sides():
    train, held_out = corpus.split(STORIES)
    pairs = [{(s["hero"], s["thing"]) for s in side} for side in (train, held_out)]
    assert all(pairs)
    assert not pairs[0] & pairs[1]
    assert len(train) + len(held_out) == len(STORIES)


def test_the_split_is_by_pair_and_about_one_in_forty():
    share = np.mean([is_held_out(f"hero{i}", f"thing{j}") for i in range(60) for j in range(60)])
    assert share == pytest.approx(1 / common.ONE_IN_IS_HELD_OUT, rel=0.3)


def test_a_task_gives_the_same_stories_again():
    assert corpus.program_stories(0)[:400] == STORIES
    assert corpus.program_stories(1)[0] != STORIES[0]


def test_documents_have_the_markup_of_the_chat_template(tokenizer):
    rng = random.Random(0)
    seen = set()
    for story, another in pairwise(STORIES):
        text = corpus.document(story, another, rng)
        if text.endswith(END_OF_TEXT):
            assert text == story["story"] + END_OF_TEXT
            seen.add("plain")
            continue
        turns = re.findall(
            rf"{re.escape(TURN_BEGIN)}(\w+)\n(.*?){re.escape(TURN_END)}\n", text, re.S
        )
        messages = [{"role": role, "content": content} for role, content in turns]
        assert tokenizer.apply_chat_template(messages, tokenize=False) == text
        asked = [m["content"] for m in messages if m["role"] == "user"]
        assert asked == [story["ask"], another["ask"]][: len(asked)]
        seen.add(f"{len(asked)} turns, system {messages[0]['role'] == 'system'}")
    assert len(seen) == 5


@pytest.mark.parametrize("text", ["A dog.", "Émile 42 🐕", "  spaces\n\nand lines\n", END_OF_TEXT])
def test_any_text_comes_back_from_the_tokenizer(tokenizer, text):
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_rows_begin_with_a_document_and_lose_only_ends(tokenizer, monkeypatch):
    monkeypatch.setattr(corpus, "CONTEXT", 100)
    texts = [f"Number {'very ' * (i % 40)}{i}.{END_OF_TEXT}" for i in range(200)]
    rows = corpus.pack(texts, tokenizer)
    assert rows.shape[1] == 101
    decoded = [tokenizer.decode(row) for row in rows]
    assert all(text.startswith("Number ") for text in decoded)
    whole = [t for text in decoded for t in re.findall(r"Number .*?\.<\|endoftext\|>", text)]
    assert set(whole) <= set(texts)
    assert len(whole) + len(rows) >= 198  # a row's last may be cut, and the last row never fills
