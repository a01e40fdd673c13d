"""Text piece by piece: the same as decoding everything at once, and never a broken character."""

import random
from functools import cache

import pytest
from checkpoints import BYTE_TOKENIZER
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from minivllm.engine.detokenizer import Detokenizer, TokenDecoder
from minivllm.hub import resolve_model

QUICK = settings(max_examples=200, deadline=None)


@cache
def bytes_tokenizer():
    """One token per byte."""
    return AutoTokenizer.from_pretrained(BYTE_TOKENIZER)


@cache
def bpe_tokenizer():
    """SmolLM2's: tokens of several bytes, which may begin or end inside a character."""
    return AutoTokenizer.from_pretrained(resolve_model("smollm2"))


@cache
def fallback_tokenizer():
    """As Llama 2's: words with their space in front, and `<0x..>` tokens for what has none."""
    pieces = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", "▁the", "▁cat", "s", "é", "你", "\N{COMBINING ACUTE ACCENT}", "▁▁", "\n"]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab, [], byte_fallback=True, unk_token="<unk>"))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", unk_token="<unk>")


TOKENIZERS = [bytes_tokenizer, bpe_tokenizer, fallback_tokenizer]


@cache
def decoder_of(make_tokenizer):
    return TokenDecoder(make_tokenizer())


@cache
def broken_ids(make_tokenizer):
    """Tokens that are no whole characters by themselves, and some that are."""
    tokenizer = make_tokenizer()
    ids = [i for i in range(len(tokenizer)) if "\ufffd" in tokenizer.decode([i])]
    return [*ids, *range(0, len(tokenizer), max(1, len(tokenizer) // 200))]


def pieces_of(make_tokenizer, token_ids, cuts=None, **options):
    """The pieces of `token_ids` given in groups of the sizes `cuts`, by default one by one."""
    detokenizer = Detokenizer(decoder_of(make_tokenizer), **options)
    sizes, pieces, start = iter(cuts or ()), [], 0
    while start < len(token_ids):
        size = next(sizes, 1)
        pieces.append(detokenizer.add(token_ids[start : start + size]))
        start += size
    return [*pieces, detokenizer.finish()]


@pytest.mark.parametrize("make_tokenizer", TOKENIZERS)
@QUICK
@given(text=st.text(max_size=60), cuts=st.lists(st.integers(1, 4), max_size=60))
def test_any_text_comes_back_whole(make_tokenizer, text, cuts):
    tokenizer = make_tokenizer()
    token_ids = tokenizer.encode(text, add_special_tokens=False)
    pieces = pieces_of(make_tokenizer, token_ids, cuts)
    assert "".join(pieces) == tokenizer.decode(token_ids, skip_special_tokens=True)


@pytest.mark.parametrize("make_tokenizer", [bytes_tokenizer, bpe_tokenizer])
@pytest.mark.parametrize("skip_special_tokens", [True, False])
@QUICK
@given(data=st.data())
def test_any_tokens_give_the_text_of_decoding_them_at_once(
    make_tokenizer, skip_special_tokens, data
):
    ids = st.sampled_from(broken_ids(make_tokenizer))
    token_ids = data.draw(st.lists(ids, max_size=80))
    cuts = data.draw(st.lists(st.integers(1, 4), max_size=80))
    options = {"skip_special_tokens": skip_special_tokens}
    pieces = pieces_of(make_tokenizer, token_ids, cuts, **options)
    assert "".join(pieces) == make_tokenizer().decode(token_ids, **options)


@pytest.mark.parametrize("skip_special_tokens", [True, False])
@QUICK
@given(token_ids=st.lists(st.integers(0, 266), max_size=80))
def test_byte_tokens_give_the_text_of_decoding_them_at_once(token_ids, skip_special_tokens):
    options = {"skip_special_tokens": skip_special_tokens}
    pieces = pieces_of(fallback_tokenizer, token_ids, **options)
    assert "".join(pieces) == fallback_tokenizer().decode(token_ids, **options)


@QUICK
@given(text=st.text(max_size=40))
def test_a_piece_is_made_of_whole_characters(text):
    """The text has no U+FFFD of its own, so none may show."""
    text = text.replace("\ufffd", "")
    token_ids = list(text.encode())
    written = ""
    for piece in pieces_of(bytes_tokenizer, token_ids):
        written += piece
        assert text.startswith(written)


def test_an_emoji_of_four_tokens_appears_with_the_last():
    assert pieces_of(bytes_tokenizer, [65, *"🙂".encode(), 66]) == ["A", "", "", "", "🙂", "B", ""]


def test_text_before_an_unfinished_character_is_not_held():
    token_ids = [*"né".encode(), *"你".encode()[:2]]
    assert pieces_of(bytes_tokenizer, token_ids, [len(token_ids)]) == ["né", "\ufffd"]


def test_an_invalid_byte_is_written_once_the_next_token_shows_that_it_is_one():
    assert pieces_of(bytes_tokenizer, [0x80, 65, 0xFF]) == ["", "\ufffdA", "", "\ufffd"]


def test_a_character_interrupted_by_a_special_token_is_as_in_the_full_text():
    first, *rest = "é".encode()
    token_ids = [first, *[256] * 40, *rest]
    assert pieces_of(bytes_tokenizer, token_ids)[-2:] == ["é", ""]


def test_tokens_the_tokenizer_does_not_know_write_nothing():
    first, *rest = "é".encode()
    token_ids = [first, *range(300, 320), *rest]
    assert "".join(pieces_of(bytes_tokenizer, token_ids)) == "é"


def test_special_tokens_are_written_on_request():
    assert pieces_of(bytes_tokenizer, [65, 258], skip_special_tokens=False)[1] == "<|im_end|>"
    assert pieces_of(bytes_tokenizer, [65, 258])[1] == ""


@pytest.mark.parametrize("token_ids", [[65], [0x80], [0xF0, 0x9F], [256]])
def test_the_cost_of_a_token_does_not_grow_with_the_text(token_ids):
    decoder, sizes = TokenDecoder(bytes_tokenizer()), []
    decode = decoder.decode
    decoder.decode = lambda ids: sizes.append(len(ids)) or decode(ids)
    detokenizer = Detokenizer(decoder)
    for _ in range(500):
        detokenizer.add(token_ids)
    assert max(sizes, default=0) <= 20
    assert sum(sizes) <= 500 * 20


def test_random_tokens_of_the_whole_vocabulary():
    rng = random.Random(0)
    tokenizer = bpe_tokenizer()
    for _ in range(50):
        token_ids = rng.choices(range(len(tokenizer)), k=100)
        assert "".join(pieces_of(bpe_tokenizer, token_ids)) == tokenizer.decode(
            token_ids, skip_special_tokens=True
        )
