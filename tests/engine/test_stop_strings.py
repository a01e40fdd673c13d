"""Stop strings: where they end a text, and what a stream shows before."""

from itertools import pairwise

import pytest
from checkpoints import BYTE_TOKENIZER
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import speak
from transformers import AutoTokenizer

from minivllm import LLM, SamplingParams
from minivllm.engine.detokenizer import TokenDecoder
from minivllm.engine.stop_strings import find_stop_string, num_held_characters
from minivllm.engine.text_builder import TextBuilder

TOKENIZER = AutoTokenizer.from_pretrained(BYTE_TOKENIZER)
DECODER = TokenDecoder(TOKENIZER)
QUICK = settings(max_examples=400, deadline=None)

texts = st.text(alphabet="abcé", max_size=14)
stop_lists = st.lists(st.text(alphabet="abcé", min_size=1, max_size=4), min_size=1, max_size=3)


def read_by_character(text, stop_strings, num_free=0):
    """The oracle: read on until the text ends in a stop string; gives the text before and it."""
    for end in range(num_free + 1, len(text) + 1):
        found = [stop for stop in stop_strings if text[:end].endswith(stop)]
        if found:
            longest = max(found, key=len)
            return text[: end - len(longest)], longest
    return text, None


def stream_of(token_ids, cuts, **params):
    """What a stream shows after each group of tokens, and at the end; and the stop string."""
    builder = TextBuilder(DECODER, SamplingParams(max_tokens=None, **params))
    shown, start, sizes = [], 0, iter(cuts)
    while start < len(token_ids) and builder.stop_string is None:
        size = next(sizes, 1)
        builder.add(token_ids[start : start + size])
        shown.append(builder.shown_text)
        start += size
    builder.finish()
    return [*shown, builder.text], builder.stop_string


@QUICK
@given(text=texts, stops=stop_lists, cuts=st.lists(st.integers(1, 5), max_size=20))
def test_the_text_ends_where_a_reader_would_stop(text, stops, cuts):
    shown, stop_string = stream_of(list(text.encode()), cuts, stop=stops)
    assert (shown[-1], stop_string) == read_by_character(text, stops)


@QUICK
@given(text=texts, stops=stop_lists)
def test_the_stop_string_is_kept_on_request(text, stops):
    shown, stop_string = stream_of(
        list(text.encode()), [], stop=stops, include_stop_str_in_output=True
    )
    before, expected = read_by_character(text, stops)
    assert (shown[-1], stop_string) == (before + (expected or ""), expected)


@QUICK
@given(text=texts, stops=stop_lists, includes=st.booleans(), cuts=st.lists(st.integers(1, 3)))
def test_a_stream_only_grows_and_ends_in_the_full_text(text, stops, includes, cuts):
    shown, _ = stream_of(list(text.encode()), cuts, stop=stops, include_stop_str_in_output=includes)
    for earlier, later in pairwise(shown):
        assert later.startswith(earlier)


@QUICK
@given(text=st.text(alphabet="abc", max_size=14), stops=stop_lists)
def test_a_stream_holds_no_more_than_what_could_become_a_stop_string(text, stops):
    shown, _ = stream_of(list(text.encode()), [], stop=stops)
    for num_tokens, piece in enumerate(shown[:-1], start=1):
        held = text[len(piece) : num_tokens]
        assert held == "" or any(stop.startswith(held) for stop in stops)


@QUICK
@given(text=texts, stops=stop_lists, min_tokens=st.integers(0, 8))
def test_no_stop_string_ends_within_the_first_tokens(text, stops, min_tokens):
    token_ids = list(text.encode())
    shown, stop_string = stream_of(token_ids, [], stop=stops, min_tokens=min_tokens)
    free = TOKENIZER.decode(token_ids[:min_tokens]).rstrip("\ufffd")
    assert (shown[-1], stop_string) == read_by_character(text, stops, len(free))


@pytest.mark.parametrize(
    ("text", "stops", "match"),
    [
        ("one two", ["two"], (4, 7)),
        ("one two", ["three"], None),
        ("abcd", ["abcd", "c"], (2, 3)),  # complete first
        ("abcd", ["cd", "abcd", "d"], (0, 4)),  # of those complete at once the longest
        ("aaa", ["aa"], (0, 2)),
    ],
)
def test_the_match_that_is_complete_first_counts(text, stops, match):
    assert find_stop_string(text, stops, 0) == match


def test_a_match_that_ends_in_what_was_read_is_left_out():
    assert find_stop_string("ab ab", ["ab"], 2) == (3, 5)
    assert find_stop_string("ab", ["ab"], 1) == (0, 2)


@pytest.mark.parametrize(
    ("text", "num_held"), [("x", 0), ("x<", 1), ("x<e", 2), ("<en", 3), ("<end", 0), ("<<", 1)]
)
def test_the_longest_start_of_a_stop_string_is_held(text, num_held):
    assert num_held_characters(text, ["<end"]) == num_held


# In the engine.

PROMPT = [5, 6, 7]


@pytest.fixture
def llm(tiny_checkpoint):
    folder = tiny_checkpoint("qwen3")
    return LLM(str(folder), device="cpu", block_size=4, num_blocks=32, max_model_len=64)


def completion_of(llm, text, token_ids=None, **params):
    speak(llm, list(text.encode()) if token_ids is None else token_ids)
    params = SamplingParams(**{"temperature": 0, "max_tokens": 30, **params})
    (output,) = llm.generate([PROMPT], params, use_tqdm=False)
    return output.outputs[0]


def test_a_stop_string_over_several_tokens_ends_the_request_and_frees_its_blocks(llm):
    completion = completion_of(llm, "say STOP and on", stop=["STOP"])
    assert (completion.text, completion.finish_reason, completion.stop_reason) == (
        "say ",
        "stop",
        "STOP",
    )
    assert list(completion.token_ids) == list(b"say STOP")  # the tokens are all there
    assert not llm.engine.has_unfinished_requests()
    assert llm.engine.core.kv_cache_manager.usage == 0


def test_one_stop_string_can_be_given_without_a_list(llm):
    assert completion_of(llm, "a. b", stop=".").text == "a"


def test_held_text_is_shown_when_the_length_ends_the_request(llm):
    completion = completion_of(llm, "ab<en", stop="<end>", max_tokens=5)
    assert (completion.text, completion.finish_reason, completion.stop_reason) == (
        "ab<en",
        "length",
        None,
    )


def test_a_stop_string_in_the_last_allowed_token_is_a_stop(llm):
    completion = completion_of(llm, "abc", stop="c", max_tokens=3)
    assert (completion.text, completion.finish_reason, completion.stop_reason) == (
        "ab",
        "stop",
        "c",
    )


@pytest.mark.parametrize(("includes", "text"), [(False, "hi"), (True, "hix")])
def test_stop_ids_and_stop_strings_are_kept_by_the_same_rule(llm, includes, text):
    rule = {"include_stop_str_in_output": includes}
    by_id = completion_of(llm, "hix!", stop_token_ids=[ord("x")], **rule)
    by_text = completion_of(llm, "hix!", stop=["x"], **rule)
    assert (by_id.text, by_id.stop_reason) == (text, ord("x"))
    assert (by_text.text, by_text.stop_reason) == (text, "x")
    assert by_id.token_ids == by_text.token_ids


@pytest.mark.parametrize("includes", [False, True])
def test_the_text_has_no_end_of_text_token(llm, includes):
    token_ids = [*b"ok", 257]
    completion = completion_of(llm, "", token_ids, include_stop_str_in_output=includes)
    assert (completion.text, completion.finish_reason, completion.stop_reason) == (
        "ok",
        "stop",
        None,
    )
    assert list(completion.token_ids) == token_ids


def test_an_end_of_text_token_that_was_ignored_shows_only_on_request(llm):
    token_ids, params = [*b"ok", 257, *b"go"], {"ignore_eos": True, "max_tokens": 5}
    assert completion_of(llm, "", token_ids, **params).text == "okgo"
    shown = completion_of(llm, "", token_ids, skip_special_tokens=False, **params)
    assert shown.text == "ok<|im_start|>go"


def test_special_tokens_that_are_written_can_be_stop_strings(llm):
    completion = completion_of(
        llm, "", [*b"ok", 256], skip_special_tokens=False, ignore_eos=True, stop="<|end"
    )
    assert (completion.text, completion.stop_reason) == ("ok", "<|end")


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ({"stop": "b"}, "abaa"),
        ({"stop_token_ids": [ord("b")]}, "abaa"),
        ({"stop": "ba"}, "abaa"),
        ({"stop": "aab"}, "ab"),  # it may begin among the first tokens
    ],
)
def test_nothing_ends_a_request_before_min_tokens(llm, ends, expected):
    completion = completion_of(llm, "abaabaa", min_tokens=3, **ends)
    assert completion.text == expected
    assert completion.finish_reason == "stop"


def test_no_text_is_made_without_detokenize(llm):
    tokenizer = llm.get_tokenizer()
    tokenizer.decode = tokenizer.convert_ids_to_tokens = None  # a call would fail
    completion = completion_of(llm, "abc", detokenize=False, logprobs=1, max_tokens=3)
    assert (completion.text, list(completion.token_ids)) == ("", list(b"abc"))
    assert {each.decoded_token for row in completion.logprobs for each in row.values()} == {None}


def test_a_stop_string_of_one_request_leaves_the_others_alone(llm):
    speak(llm, list(b"one two"))
    params = [SamplingParams(max_tokens=7, stop=stop) for stop in (None, "n", "two")]
    outputs = llm.generate([PROMPT] * 3, params, use_tqdm=False)
    assert [output.output_text for output in outputs] == ["one two", "o", "one "]
