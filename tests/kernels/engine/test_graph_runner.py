"""Graphs of decode steps, recorded: what they give is what the same steps give one by one."""

import random

import pytest
from graph_rig import GraphRig

from minivllm.worker.graph_runner import graph_sizes

PROMPTS = {"a": [5, 17, 3], "b": [60], "c": [3, 8, 41, 2, 9], "d": [30, 11], "e": [7] * 4}


def started(max_num_seqs=5, names="abcde", **params):
    """A rig whose requests have computed their prompts, the first token of each in flight."""
    rig = GraphRig(max_num_seqs)
    for number, name in enumerate(names):
        rig.add(name, PROMPTS[name], seed=number, **params)
    rig.step(**{name: len(PROMPTS[name]) for name in names})
    return rig


def decode(rig, names, num_steps=1):
    for _ in range(num_steps):
        rig.step(**dict.fromkeys(names, 1))


def finish(rig):
    rig.read()
    rig.assert_same_pages()


@pytest.mark.parametrize(
    ("max_num_seqs", "sizes"),
    [
        (1, [1]),
        (2, [1, 2]),
        (3, [1, 2, 3]),
        (8, [1, 2, 4, 8]),
        (9, [1, 2, 4, 8, 9]),
        (16, [1, 2, 4, 8, 16]),
        (17, [1, 2, 4, 8, 16, 17]),
        (40, [1, 2, 4, 8, 16, 32, 40]),
        (64, [1, 2, 4, 8, 16, 32, 48, 64]),
    ],
)
def test_sizes_end_with_the_largest_batch(max_num_seqs, sizes):
    assert graph_sizes(max_num_seqs) == sizes


def test_the_smallest_graph_that_fits_is_replayed():
    rig = started()
    for names in ("abcde", "abcd", "abc", "ab", "a"):
        decode(rig, names)
        rig.end(names[-1])
    assert [(len(rows), len(logits)) for rows, logits in rig.replays] == [
        (5, 5),
        (4, 4),
        (3, 4),
        (2, 2),
        (1, 1),
    ]
    finish(rig)


@pytest.mark.parametrize("max_num_seqs", [1, 3, 17])
def test_any_largest_batch(max_num_seqs):
    rig = GraphRig(max_num_seqs)
    names = [f"r{i}" for i in range(max_num_seqs)]
    for number, name in enumerate(names):
        rig.add(name, [number + 1], temperature=number % 2, seed=number)
    while names:
        decode(rig, names, num_steps=2)
        for name in names[::2]:  # every other row is moved into a gap
            rig.end(name)
        names = names[1::2]
    finish(rig)
    assert len(rig.replays) > 1


def test_a_row_that_is_not_scheduled_is_left_alone():
    rig = started(names="abcd")
    for names in ("ac", "bd", "d", "abcd", "ba", "c"):
        decode(rig, names)
    assert [rows for rows, _ in rig.replays] == [[0, 2], [1, 3], [3], [0, 1, 2, 3], [1, 0], [2]]
    finish(rig)


def test_rows_move_and_come_back_with_other_blocks():
    rig = started(names="abcd", temperature=1.0)
    decode(rig, "abcd", 2)
    rig.preempt("a")  # the last row takes its place, its token still in flight
    decode(rig, "bcd", 2)
    rig.come_back("a")
    num_known = len(PROMPTS["a"]) + 3
    rig.step(b=1, c=1, d=1, a=num_known)
    decode(rig, "bcda", 3)
    rig.end("b")
    rig.end("d")
    decode(rig, "ca", 2)
    finish(rig)


def test_a_name_used_again_while_its_token_is_in_flight_is_somebody_else():
    rig = started(names="abc")
    decode(rig, "abc")
    rig.end("b")
    rig.add("b", [9, 9, 1])
    rig.step(a=1, c=1, b=1)  # then comes the old one's third token
    rig.step(a=1, c=1, b=2)
    decode(rig, "acb", 2)
    finish(rig)


def test_a_step_with_a_chunk_is_run_one_by_one_and_the_next_finds_its_tokens():
    rig = started(names="ab")
    decode(rig, "ab")
    rig.add("c", PROMPTS["c"])
    rig.step(a=1, b=1, c=2)
    assert len(rig.replays) == 1
    rig.step(a=1, b=1, c=1)  # one token of a prompt is like a decode, but for its end
    rig.step(a=1, b=1, c=2)
    decode(rig, "abc", 2)
    assert [rows for rows, _ in rig.replays] == [[0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2]]
    finish(rig)


def test_a_step_of_nothing_but_chunks_samples_nothing():
    rig = GraphRig(3)
    rig.add("c", PROMPTS["c"])
    for _ in PROMPTS["c"]:
        rig.step(c=1)
    assert len(rig.replays) == 5
    assert len(rig.said["c"]) == 1
    finish(rig)


ASKS_FOR_MORE = {
    "nothing": ({"temperature": 1.0}, False),
    "greedy": ({"temperature": 0, "top_k": 3, "top_p": 0.5, "min_p": 0.1}, False),
    "top_k": ({"temperature": 1.0, "top_k": 3}, True),
    "top_k of all": ({"temperature": 1.0, "top_k": -1}, False),
    "top_p": ({"temperature": 1.0, "top_p": 0.9}, True),
    "min_p": ({"temperature": 1.0, "min_p": 0.05}, True),
    "logprobs": ({"temperature": 1.0, "logprobs": 2}, True),
    "bias": ({"temperature": 0, "logit_bias": {7: 4.0}}, True),
}


@pytest.mark.parametrize("name", ASKS_FOR_MORE)
def test_the_sampler_is_asked_only_by_rows_that_need_their_logits(name):
    params, asks = ASKS_FOR_MORE[name]
    rig = GraphRig(3)
    rig.add("plain", [1, 2], temperature=0.7, seed=1)
    rig.add("asks", [3, 4, 5], seed=2, **params)
    rig.step(plain=2, asks=3)
    for _ in range(3):
        rig.read()  # as the engine does where a rule counts tokens
        decode(rig, ["plain", "asks"])
        assert rig.captured.sampler.num_calls == int(asks)
    rig.end("asks")
    decode(rig, ["plain"], 2)
    assert rig.captured.sampler.num_calls == 0
    assert len(rig.replays) == 5
    finish(rig)


def test_log_probabilities_of_a_prompt_are_computed_one_by_one():
    rig = GraphRig(2)
    rig.add("a", [1, 2, 3], prompt_logprobs=1)
    for _ in range(3):
        rig.step(a=1)
    assert rig.replays == []
    finish(rig)


@pytest.mark.parametrize("seed", range(2))
def test_whatever_happens_both_give_the_same(seed):
    """Requests come, end, lose their blocks, come back, are left out, and compute in chunks."""
    rng, rig = random.Random(seed), GraphRig(5)
    left, away, number = {}, {}, 0  # tokens that are known and not computed, of each request
    for _ in range(24):
        act_on_requests(rng, rig, left, away)
        if len(left) < 5 and rng.random() < 0.6:
            name, prompt = f"r{number}", [rng.randrange(61) for _ in range(rng.randint(1, 6))]
            temperature = rng.choice([0, 1.0])
            rig.add(name, prompt, temperature=temperature, seed=number)
            left[name], number = len(prompt), number + 1
        chosen = [name for name in left if rng.random() < 0.8]
        counts = {name: rng.choice([1, 1, left[name]]) for name in chosen}
        rig.step(**counts)
        for name, count in counts.items():
            left[name] = max(1, left[name] - count)
        for name in [name for name in left if len(rig.said[name]) > 9]:
            rig.end(name)
            del left[name]
    finish(rig)
    assert len(rig.replays) > 5


def act_on_requests(rng, rig, left, away):
    """Maybe one ends, one is preempted, or one comes back."""
    started_ones = [name for name in left if rig.said[name]]
    if started_ones and rng.random() < 0.2:
        name = rng.choice(started_ones)
        if rng.random() < 0.5:
            rig.end(name)
        else:
            rig.preempt(name)
            away[name] = True
        del left[name]
    elif away and len(left) < 5 and rng.random() < 0.5:
        name, _ = away.popitem()
        rig.read()
        rig.come_back(name)
        left[name] = rig.num_known(name)
