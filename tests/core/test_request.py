import pytest
from tiny_planner import make_request

from minivllm.core.request import RequestStatus


def test_prompt_list_stays_the_callers():
    prompt = [1, 2, 3]
    request = make_request("a", prompt)
    request.token_ids.append(4)
    assert prompt == [1, 2, 3]
    prompt.append(9)
    assert request.token_ids == [1, 2, 3, 4]


def test_number_of_prompt_tokens_stays_as_the_output_grows():
    request = make_request("a", [1, 2, 3])
    request.token_ids += [4, 5]
    assert (request.num_prompt_tokens, request.num_tokens) == (3, 5)
    assert request.output_token_ids == [4, 5]


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "expected"),
    [(3, 4, 7), (3, 5, 8), (3, 6, 8), (3, None, 8), (7, 16, 8), (7, 1, 8)],
)
def test_length_is_limited_by_max_tokens_and_by_the_context(prompt, max_tokens, expected):
    request = make_request("a", prompt, max_tokens=max_tokens, max_model_len=8)
    assert request.max_num_tokens == expected


def test_end_of_text_and_stop_ids_both_end_it():
    request = make_request("a", eos=frozenset({1, 2}), stop_token_ids=[2, 3])
    assert request.stop_token_ids == {1, 2, 3}
    assert request.eos_token_ids == {1, 2}


def test_ignore_eos_leaves_only_the_stop_ids():
    request = make_request("a", eos=frozenset({1, 2}), stop_token_ids=[2, 3], ignore_eos=True)
    assert request.stop_token_ids == {2, 3}
    assert request.eos_token_ids == frozenset()


def test_forgetting_keeps_tokens_and_hashes():
    request = make_request("a", [1, 2, 3])
    request.num_computed_tokens, request.num_cached_blocks, request.num_slots = 3, 1, 4
    request.block_hashes.append(b"h")
    request.forget_computed(RequestStatus.PREEMPTED)
    assert (request.num_computed_tokens, request.num_cached_blocks) == (0, 0)
    assert request.num_slots == 0
    assert (request.token_ids, request.block_hashes) == ([1, 2, 3], [b"h"])
    assert request.status is RequestStatus.PREEMPTED


def test_requests_are_equal_only_to_themselves():
    assert make_request("a", [1]) != make_request("a", [1])
