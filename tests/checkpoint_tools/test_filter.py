"""Each rule of the filter against a story that breaks this rule and no other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tools.checkpoint.filter import (
    Candidate,
    best_of,
    first_rule_broken,
    tidy,
    without_near_duplicates,
    words_of,
)

OPENING = "Once upon a time there was a dog named Rex. He had a red kite that he loved."
TEXT = (
    "One day the wind took the kite away. Rex ran after it, over the hill and into the wood. "
    'A bird sat on the branch of a tall tree. "Here it is," said the bird, and let it fall. '
    "Rex jumped high and caught the string. He was so happy that he barked all the way home."
)
GOOD = Candidate(
    hero="dog",
    thing="kite",
    opening=OPENING,
    text=TEXT,
    logprob=-1.0,
    finished=True,
    everyday=frozenset(words_of(TEXT.lower())) | {"the", "a", "wise", "owl", "looked", "up"},
)


def test_a_good_story_passes():
    assert first_rule_broken(GOOD) is None


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("length", {"text": "Rex ran home with the kite. He was happy."}),
        ("length", {"text": TEXT * 3}),
        ("plain characters", {"text": TEXT.replace("One day", "On day 1")}),
        ("plain characters", {"text": TEXT.replace("One day", "* One day")}),
        ("finished sentence", {"text": TEXT + " And then the"}),
        ("finished sentence", {"text": TEXT + " Was he happy?"}),
        ("both words again", {"text": TEXT.replace("kite", "string")}),
        ("both words again", {"text": TEXT.replace("Rex", "He")}),
        ("no word about stories", {"text": TEXT + " The moral is clear."}),
        ("fit for children", {"text": TEXT + " The gun fell."}),
        ("quotes closed", {"text": TEXT.replace(" fall.", ' "fall.')}),
        ("past tense, third person", {"text": TEXT + " He is happy now."}),
        ("past tense, third person", {"text": TEXT + " Our bird sat."}),
        ("same pronoun", {"text": TEXT + " She barked high."}),
        ("no repetition", {"text": TEXT + " Rex jumped high and caught the string."}),
        ("likelihood", {"logprob": -1.8}),
        ("likelihood", {"logprob": -0.1}),
        ("everyday words", {"text": TEXT + " He ran over the gazebo."}),
        ("no new name", {"text": TEXT + " Owl sat on the branch."}),
    ],
)
def test_a_story_with_one_fault_is_left_out_by_that_rule(rule, change):
    if rule == "no new name":
        change = {**change, "everyday": GOOD.everyday | {"owl"}}
        change["text"] = TEXT.replace("said the bird", "said Owl")
    assert first_rule_broken(replace(GOOD, **change)) == rule


def test_cut_off_text_goes_back_to_its_last_full_stop():
    assert tidy("He ran. “Stop,” she said. He sto", finished=False) == 'He ran. "Stop," she said.'
    assert tidy("He ran.\n\n\n  She   sat.", finished=True) == "He ran.\n\nShe sat."
    assert tidy("no end", finished=False) == ""


def test_the_likeliest_that_passes_stays_and_all_are_counted():
    raw = [
        {"text": TEXT, "logprob": -1.2, "finished": True},
        {"text": TEXT.replace("One day", "Then"), "logprob": -1.0, "finished": True},
        {"text": "No.", "logprob": -0.5, "finished": True},
    ]
    record = {
        "request": {"hero": "dog", "thing": "kite"},
        "opening": OPENING,
        "continuations": raw,
    }
    counts: Counter[str] = Counter()
    best = best_of(record, GOOD.everyday | {"then"}, counts)
    assert best is not None
    assert best.text.startswith("Then")
    assert counts == {"passed": 2, "length": 1}


def test_near_duplicates_leave_the_first():
    one = {"continuation": TEXT}
    two = {"continuation": TEXT.replace("tall tree", "small bush")}
    other = {"continuation": "A cat sat in the sun and slept until the evening came again."}
    assert list(without_near_duplicates([one, two, other])) == [one, other]
