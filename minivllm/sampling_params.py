"""What a user may ask of the sampler; every field is checked when the object is made.

Names and meanings are vLLM's, so that an example moves over by changing its import. The object is
frozen: the engine never changes what the caller passed in.
Next file to read: `minivllm/sample/sampler.py`, which carries these out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minivllm.config import is_int, is_number
from minivllm.errors import RequestError

MIN_TEMPERATURE = 0.01  # below this, dividing by the temperature overflows; vLLM raises it too


def _check(ok: bool, name: str, value: object, rule: str) -> None:
    if not ok:
        raise RequestError(f"{name}={value!r} {rule}")


def _token_ids(name: str, value: Any) -> tuple[int, ...]:
    rule = "must be a list of token ids, each a whole number of at least 0"
    _check(isinstance(value, Sequence) and not isinstance(value, str | bytes), name, value, rule)
    _check(all(is_int(token) and token >= 0 for token in value), name, value, rule)
    return tuple(value)


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How the next token is chosen and when a request ends.

    Attributes:
        temperature: 0 takes the most likely token; 1 samples from the model's own distribution.
            Values between 0 and 0.01 are treated as 0.01.
        top_p: Sample from the smallest set of tokens whose probabilities reach this sum.
        top_k: Sample from this many most likely tokens; 0 or -1 is all of them.
        seed: Makes this request repeatable by itself; `None` derives one from the engine's seed
            and the request's number.
        max_tokens: Most new tokens; `None` is as many as the context length allows.
        stop_token_ids: Token ids that end the request, besides the model's end-of-text ids.
        ignore_eos: Go on after an end-of-text token.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    max_tokens: int | None = 16
    stop_token_ids: Sequence[int] | None = None
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        """Check each field.

        Raises:
            RequestError: A value is out of its range; the message names field and value.
        """
        ok = is_number(self.temperature) and self.temperature >= 0
        _check(ok, "temperature", self.temperature, "must be a finite number of at least 0")
        ok = is_number(self.top_p) and 0 < self.top_p <= 1
        _check(ok, "top_p", self.top_p, "must be above 0 and at most 1")
        ok = is_int(self.top_k) and self.top_k >= -1
        _check(ok, "top_k", self.top_k, "must be a whole number of at least -1 (0 or -1: all)")
        ok = self.seed is None or is_int(self.seed)
        _check(ok, "seed", self.seed, "must be a whole number or None")
        ok = self.max_tokens is None or (is_int(self.max_tokens) and self.max_tokens >= 1)
        _check(ok, "max_tokens", self.max_tokens, "must be a whole number of at least 1, or None")
        ids = () if self.stop_token_ids is None else self.stop_token_ids
        ids = _token_ids("stop_token_ids", ids)
        object.__setattr__(self, "stop_token_ids", ids)  # a copy: the caller's list stays theirs
        ok = isinstance(self.ignore_eos, bool)
        _check(ok, "ignore_eos", self.ignore_eos, "must be True or False")

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is taken, without chance."""
        return self.temperature == 0
