"""Detokenizer: token ids that arrive one by one become text that only grows.

A token may be part of a character, and how it is written may depend on the tokens before it (a
leading space, say). So each step decodes a short window twice, without and with the new tokens:
what the second adds is new text. While that ends in an unfinished character (U+FFFD), it is held.

    tokens         ... [ window kept for context ][ not yet written ]
                       ^ prefix_start             ^ read_start

Source: vLLM: v1/engine/detokenizer.py. Next file to read: `output_processor.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_UNFINISHED = "\ufffd"


class Detokenizer:
    """The text of one continuation.

    Attributes:
        text: What is certain so far.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._token_ids: list[int] = []
        self._prefix_start = 0
        self._read_start = 0
        self.text = ""

    def add(self, token_ids: Sequence[int]) -> str:
        """Take new tokens; gives the text they complete, perhaps none yet."""
        self._token_ids.extend(token_ids)
        return self._advance(hold_unfinished=True)

    def finish(self) -> str:
        """The text that was held back, once no more tokens come."""
        return self._advance(hold_unfinished=False)

    def _advance(self, *, hold_unfinished: bool) -> str:
        window = self._token_ids[self._prefix_start :]
        before = self._decode(window[: self._read_start - self._prefix_start])
        after = self._decode(window)
        if hold_unfinished and after.endswith(_UNFINISHED):
            return ""
        new_text = after[len(before) :]
        self._prefix_start, self._read_start = self._read_start, len(self._token_ids)
        self.text += new_text
        return new_text

    def _decode(self, token_ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=True)
        return text
