"""TextBuilder: the text of one continuation as its user sees it: decoded, and cut at a stop string.

    tokens -> Detokenizer -> text read so far: | shown        | held |
                                                                ^ may be the start of a stop string

It knows nothing of requests. Next file to read: `detokenizer.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from minivllm.engine.detokenizer import Detokenizer, TokenDecoder
from minivllm.engine.stop_strings import find_stop_string, num_held_characters
from minivllm.sampling_params import SamplingParams


class TextBuilder:
    """Tokens in, text out.

    Attributes:
        stop_string: The stop string that ended the text; `None` while none did.
    """

    def __init__(self, decoder: TokenDecoder, params: SamplingParams) -> None:
        self._detokenizer = Detokenizer(decoder, skip_special_tokens=params.skip_special_tokens)
        self._stop_strings = tuple(params.stop or ())
        self._keeps_stop_string = params.include_stop_str_in_output
        self._min_tokens = params.min_tokens
        self._num_tokens = 0
        self._text = ""
        self._read_until = 0  # a stop string that ends before this has been looked for
        self.stop_string: str | None = None

    @property
    def text(self) -> str:
        """All that was read, up to the stop string that ended it."""
        return self._text

    @property
    def shown_text(self) -> str:
        """The text without what a later token could turn into a stop string."""
        if not self._stop_strings or self._keeps_stop_string or self.stop_string is not None:
            return self._text
        return self._text[: len(self._text) - num_held_characters(self._text, self._stop_strings)]

    def add(self, token_ids: Sequence[int]) -> None:
        """Take new tokens, until one completes a stop string."""
        if not self._stop_strings:  # nothing to look for between them
            self._text += self._detokenizer.add(token_ids)
            return
        for token_id in token_ids:
            self._num_tokens += 1
            self._read(self._detokenizer.add([token_id]))

    def finish(self) -> None:
        """No more tokens come: an unfinished character is written as it stands."""
        self._read(self._detokenizer.finish())

    def _read(self, piece: str) -> None:
        if not piece or self.stop_string is not None:
            return
        self._text += piece
        if self._stop_strings and self._num_tokens > self._min_tokens:
            self._end_at_stop_string()
        self._read_until = len(self._text)

    def _end_at_stop_string(self) -> None:
        match = find_stop_string(self._text, self._stop_strings, self._read_until)
        if match is None:
            return
        self.stop_string = self._text[match.start : match.end]
        self._text = self._text[: match.end if self._keeps_stop_string else match.start]
