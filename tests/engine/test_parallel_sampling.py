"""n > 1: several continuations of one prompt."""

import pytest
from scripted import speak

from minivllm import LLM, RequestError, SamplingParams

PROMPT = list(range(20, 33))  # three blocks of 4, and a token


def build(folder, **settings):
    keywords = {"block_size": 4, "num_blocks": 64, "max_model_len": 64, **settings}
    return LLM(str(folder), device="cpu", **keywords)


@pytest.fixture
def folder(tiny_checkpoint):
    return tiny_checkpoint("qwen3")


@pytest.fixture
def llm(folder):
    return build(folder)


def hot(n=1, **params):
    return SamplingParams(
        **{"n": n, "temperature": 1.5, "max_tokens": 8, "ignore_eos": True, **params}
    )


def tokens(output):
    return [completion.token_ids for completion in output.outputs]


def test_one_output_holds_the_continuations_in_order(llm):
    (output,) = llm.generate([PROMPT], hot(n=3), use_tqdm=False)
    assert [completion.index for completion in output.outputs] == [0, 1, 2]
    assert len(set(tokens(output))) == 3
    assert output.finished
    assert output.prompt_token_ids == tuple(PROMPT)


def test_continuation_i_is_that_of_seed_plus_i(llm):
    (together,) = llm.generate([PROMPT], hot(n=3, seed=7), use_tqdm=False)
    alone = llm.generate([PROMPT] * 3, [hot(seed=7 + i) for i in range(3)], use_tqdm=False)
    assert tokens(together) == [tokens(output)[0] for output in alone]


def test_the_largest_seed_wraps_around(llm):
    (together,) = llm.generate([PROMPT], hot(n=2, seed=2**63 - 1), use_tqdm=False)
    (zero,) = llm.generate([PROMPT], hot(seed=0), use_tqdm=False)
    assert tokens(together)[1] == tokens(zero)[0]


def test_without_a_seed_a_new_engine_repeats_them_and_prompts_differ(folder):
    def run():
        outputs = build(folder).generate([PROMPT] * 2, hot(n=2), use_tqdm=False)
        return [tokens(output) for output in outputs]

    first = run()
    assert run() == first
    assert len({row for output in first for row in output}) == 4


def test_the_full_blocks_of_the_prompt_are_shared(llm):
    manager = llm.engine.core.kv_cache_manager
    llm.engine.add_request("a", PROMPT, hot(n=3))
    llm.engine.step()
    num_used = manager.pool.num_blocks - manager.pool.num_free_blocks
    assert num_used == 3 + 3 * 1  # the shared ones, and one each for what follows
    manager.check()


def test_order_and_number_stay_in_a_mixed_crowd(folder):
    llm = build(folder, max_num_seqs=2, num_blocks=16)
    numbers = [1, 3, 2, 1, 4]
    params = [hot(n=n, max_tokens=3) for n in numbers]
    prompts = [[number] * 5 for number in range(5)]
    outputs = llm.generate(prompts, params, use_tqdm=False)
    assert [len(output.outputs) for output in outputs] == numbers
    assert [list(output.prompt_token_ids) for output in outputs] == prompts


def test_continuations_arrive_in_order(folder):
    llm = build(folder, max_num_seqs=1)
    llm.engine.add_request("a", PROMPT, hot(n=2, max_tokens=2))
    llm.engine.add_request("b", PROMPT, hot(max_tokens=2))
    ended = []
    while llm.engine.has_unfinished_requests():
        for output in llm.engine.step():
            ended += [(output.request_id, len(c.token_ids)) for c in output.outputs]
    assert ended == [
        *[("a", 1), ("a", 0), ("a", 2), ("a", 0), ("a", 2), ("a", 1), ("a", 2), ("a", 2)],
        *[("b", 1), ("b", 2)],
    ]


def test_a_streamed_request_is_finished_once_all_are(llm):
    llm.engine.add_request("a", PROMPT, hot(n=2, max_tokens=20, stop_token_ids=list(range(200))))
    finished = []
    while llm.engine.has_unfinished_requests():
        for output in llm.engine.step():
            reasons = [completion.finish_reason for completion in output.outputs]
            assert output.finished == (None not in reasons)
            finished.append(output.finished)
    assert finished.count(True) == 1
    assert finished[-1]


def test_a_stop_string_ends_one_continuation_and_not_the_other(llm):
    speak(llm, {"a#0": b"abcabc", "a#1": b"xyzxyz"})
    llm.engine.add_request("a", PROMPT, hot(n=2, stop="c", max_tokens=6), stream=False)
    for _ in range(3):
        assert llm.engine.step() == []
    assert list(llm.engine.core.scheduler.requests) == ["a#1"]
    for _ in range(3):
        outputs = llm.engine.step()
    ended = [(each.text, each.finish_reason, each.stop_reason) for each in outputs[0].outputs]
    assert ended == [("ab", "stop", "c"), ("xyzxyz", "length", None)]


@pytest.mark.parametrize("num_steps", [0, 1, 2])
def test_abort_ends_all_continuations(llm, num_steps):
    llm.engine.add_request("a", PROMPT, hot(n=3))
    llm.engine.add_request("b", PROMPT, hot())
    for _ in range(num_steps):
        llm.engine.step()
    (output,) = llm.engine.abort("a")
    assert [completion.finish_reason for completion in output.outputs] == ["abort"] * 3
    assert output.finished
    assert list(llm.engine.core.scheduler.requests) == ["b"]


def test_the_name_of_a_continuation_is_not_a_request(llm):
    llm.engine.add_request("a", PROMPT, hot(n=2))
    assert llm.engine.abort("a#0") == []
    assert len(llm.engine.core.scheduler.requests) == 2


@pytest.mark.parametrize(("first", "second"), [(("a", 2), ("a#1", 1)), (("a#1", 1), ("a", 2))])
def test_names_that_would_clash_are_refused_and_nothing_is_half_added(llm, first, second):
    llm.engine.add_request(first[0], PROMPT, hot(n=first[1]))
    before = list(llm.engine.core.scheduler.requests)
    with pytest.raises(RequestError, match="in use"):
        llm.engine.add_request(second[0], PROMPT, hot(n=second[1]))
    assert list(llm.engine.core.scheduler.requests) == before


def test_a_request_that_does_not_fit_adds_nothing(folder):
    llm = build(folder, num_blocks=4)
    with pytest.raises(RequestError, match="needs 5 KV-cache blocks"):
        llm.engine.add_request("a", PROMPT, hot(n=3))
    assert not llm.engine.has_unfinished_requests()
    llm.engine.add_request("a", PROMPT, hot(n=3, max_tokens=2))


def test_greedy_continuations_are_refused():
    with pytest.raises(RequestError, match="n=2"):
        SamplingParams(n=2, temperature=0)


def test_a_pool_too_small_for_all_at_once_gives_the_same_continuations(folder):
    params = hot(n=4, seed=3, max_tokens=12)
    (large,) = build(folder).generate([PROMPT], params, use_tqdm=False)
    (small,) = build(folder, num_blocks=10).generate([PROMPT], params, use_tqdm=False)
    assert small.metrics.num_preemptions > 0
    assert tokens(small) == tokens(large)
