"""Detokenizer: token ids that arrive one by one become text that only grows.

A token may be a part of a character, and how it is written may depend on the tokens before it (a
leading space, say). So a short window of the last tokens is decoded together, and what that adds to
the characters written before is new text:

    decoded window   [ T h e   c a t   i s � ]      �: U+FFFD, here the first byte of an emoji
                       ^ num_written       ^ certain: one U+FFFD at the end may still become
                                             a character, or really be an invalid byte

An unfinished character is one U+FFFD, of up to three bytes. So only the last one is held, and a
window of a few tokens is enough to read what follows: a step costs the same however long the text.
Next file to read: `stop_strings.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_UNFINISHED = "\ufffd"
_CONTEXT = 8  # tokens that stay in the window; an unfinished character is in the last three
_MAX_WINDOW = 2 * _CONTEXT


class TokenDecoder:
    """What the engine asks of a tokenizer to write text.

    Attributes:
        special_ids: Tokens that `skip_special_tokens` leaves out.
        byte_ids: Tokens that stand for one byte each, in tokenizers that spell rare characters so.
            How a run of them is written is only known at its end: one bad byte spoils all.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder.items()
        self.special_ids = frozenset(tokenizer.all_special_ids).union(
            token_id for token_id, token in added if token.special
        )
        pieces = [f"<0x{byte:02X}>" for byte in range(256)]
        ids = tokenizer.convert_tokens_to_ids(pieces)
        self.byte_ids = frozenset(
            token_id
            for piece, token_id in zip(pieces, ids, strict=True)
            if token_id is not None and tokenizer.convert_ids_to_tokens(token_id) == piece
        )

    def known(self, token_ids: Sequence[int]) -> list[int]:
        """Those of `token_ids` that the tokenizer can write; a model may have more than it."""
        pieces = self._tokenizer.convert_ids_to_tokens(list(token_ids))
        return [token_id for token_id, piece in zip(token_ids, pieces, strict=True) if piece]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of `token_ids`, special tokens included."""
        text: str = self._tokenizer.decode(
            list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text


class Detokenizer:
    """The text of one continuation, piece by piece."""

    def __init__(self, decoder: TokenDecoder, *, skip_special_tokens: bool = True) -> None:
        self._decoder = decoder
        self._skipped_ids = decoder.special_ids if skip_special_tokens else frozenset()
        self._window: list[int] = []
        self._num_written = 0  # characters of the decoded window

    def add(self, token_ids: Sequence[int]) -> str:
        """Take new tokens; gives the text they complete, perhaps none yet."""
        shown = [token_id for token_id in token_ids if token_id not in self._skipped_ids]
        shown = self._decoder.known(shown) if shown else shown
        if not shown:
            return ""
        window = self._window + shown
        if shown[-1] in self._decoder.byte_ids:
            self._window = window
            return ""
        text = self._decoder.decode(window)
        num_certain = len(text) - text.endswith(_UNFINISHED)
        piece = text[self._num_written : num_certain]
        if len(window) > _MAX_WINDOW:
            window = window[-_CONTEXT:]
            text = self._decoder.decode(window)
            num_certain = len(text) - text.endswith(_UNFINISHED)
        self._window, self._num_written = window, num_certain
        return piece

    def finish(self) -> str:
        """The text that was held back, once no more tokens come."""
        text = self._decoder.decode(self._window) if self._window else ""
        piece = text[self._num_written :]
        self._num_written = len(text)
        return piece
