import pytest
from tiny_planner import make_request

from minivllm.core.stop import check_stop

EOS = frozenset({1, 2})


def stopped(request, *output):
    """Whether and why each output token ends the request."""
    ends = []
    for token_id in output:
        request.token_ids.append(token_id)
        ends.append(check_stop(request))
    return ends, request.finish_reason, request.stop_reason


def test_ordinary_token_ends_nothing():
    assert stopped(make_request("a", eos=EOS), 5) == ([False], None, None)


@pytest.mark.parametrize("token_id", [1, 2])
def test_any_end_of_text_id_stops_without_a_stop_reason(token_id):
    assert stopped(make_request("a", eos=EOS), 5, token_id) == ([False, True], "stop", None)


def test_stop_token_is_the_stop_reason():
    request = make_request("a", eos=EOS, stop_token_ids=[5])
    assert stopped(request, 5) == ([True], "stop", 5)


def test_end_of_text_id_that_is_a_stop_id_too_counts_as_end_of_text():
    request = make_request("a", eos=EOS, stop_token_ids=[1])
    assert stopped(request, 1) == ([True], "stop", None)


def test_ignored_end_of_text_does_not_stop():
    request = make_request("a", eos=EOS, ignore_eos=True)
    assert stopped(request, 1, 2) == ([False, False], None, None)


def test_ignored_end_of_text_stops_if_it_is_a_stop_id():
    request = make_request("a", eos=EOS, ignore_eos=True, stop_token_ids=[2])
    assert stopped(request, 1, 2) == ([False, True], "stop", 2)


def test_max_tokens_counts_the_output_only():
    request = make_request("a", 10, max_tokens=3)
    assert stopped(request, 5, 5, 5) == ([False, False, True], "length", None)


def test_context_length_counts_prompt_and_output():
    request = make_request("a", 6, max_tokens=None, max_model_len=8)
    assert stopped(request, 5, 5) == ([False, True], "length", None)


def test_stop_token_as_last_allowed_token_is_a_stop():
    request = make_request("a", max_tokens=1, stop_token_ids=[5])
    assert stopped(request, 5) == ([True], "stop", 5)


def test_token_0_can_stop():
    assert stopped(make_request("a", stop_token_ids=[0]), 0) == ([True], "stop", 0)


def test_prompt_that_ends_in_a_stop_token_runs_on():
    request = make_request("a", [5, 1], eos=EOS)
    assert stopped(request, 5) == ([False], None, None)
