"""What a user may ask of the sampler; every field is checked when the object is made.

Names and meanings are vLLM's, so that an example moves over by changing its import. The object is
frozen: the engine never changes what the caller passed in.
Next file to read: `minivllm/sample/sampler.py`, which carries these out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minivllm.checks import is_int, is_number
from minivllm.errors import RequestError

MIN_TEMPERATURE = 0.01  # below this, dividing by the temperature overflows; vLLM raises it too


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How the next token is chosen and when a request ends.

    Attributes:
        n: How many continuations to make of the prompt.
        temperature: 0 takes the most likely token; 1 samples from the model's own distribution.
            Values between 0 and 0.01 are treated as 0.01.
        top_p: Sample from the smallest set of tokens whose probabilities reach this sum.
        top_k: Sample from this many most likely tokens; 0 or -1 is all of them.
        min_p: Leave out tokens less likely than this share of the most likely one.
        seed: Makes this request repeatable by itself; `None` derives one from the engine's seed
            and the request's number. Continuation i uses `seed + i`.
        presence_penalty: Taken once from the logit of each token that was generated before.
        frequency_penalty: Taken from it for each time it was generated.
        repetition_penalty: Divides the positive logits, and multiplies the negative ones, of tokens
            in the prompt or the output; 1 changes nothing.
        logit_bias: Token id -> number added to its logit; beyond -100 and 100 these are taken.
        bad_words: Texts that must not be generated; their last token is banned once the others
            stand there.
        max_tokens: Most new tokens; `None` is as many as the context length allows.
        min_tokens: No end of any kind, but for the lengths, before so many new tokens.
        stop: Texts that end the output where they first appear.
        stop_token_ids: Token ids that end the request, besides the model's end-of-text ids.
        include_stop_str_in_output: Keep the stop text, or the text of the stop token.
        ignore_eos: Go on after an end-of-text token.
        logprobs: Report the log-probabilities of this many most likely tokens, and of the chosen.
        prompt_logprobs: The same for the tokens of the prompt.
        skip_special_tokens: Leave special tokens out of the text.
        detokenize: Make text at all.
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] | None = field(default=None, hash=False)
    bad_words: Sequence[str] | None = None
    max_tokens: int | None = 16
    min_tokens: int = 0
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    skip_special_tokens: bool = True
    detokenize: bool = True

    def __post_init__(self) -> None:
        """Check each field, and copy the caller's lists.

        Raises:
            RequestError: A value is out of its range; the message names field and value.
        """
        self._check_sampling()
        self._check_penalties()
        self._check_ends()
        for name in ("include_stop_str_in_output", "ignore_eos", "skip_special_tokens"):
            self._check(name, isinstance(getattr(self, name), bool), "must be True or False")
        self._check("detokenize", isinstance(self.detokenize, bool), "must be True or False")
        for name in ("logprobs", "prompt_logprobs"):
            value = getattr(self, name)
            ok = value is None or (is_int(value) and value >= 0)
            self._check(name, ok, "must be a whole number of at least 0, or None")
        self._copy("logit_bias", self._logit_bias())
        self._copy("bad_words", self._texts("bad_words"))
        self._copy("stop", self._texts("stop"))
        self._copy("stop_token_ids", self._token_ids())
        self._check("stop", self.detokenize or not self.stop, "needs detokenize=True")

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is taken, without chance."""
        return self.temperature == 0

    @property
    def has_logit_rules(self) -> bool:
        """Whether single logits change before a draw: bias, bans or penalties."""
        return bool(
            self.logit_bias
            or self.bad_words
            or self.min_tokens
            or self.presence_penalty
            or self.frequency_penalty
            or self.repetition_penalty != 1
        )

    def _check_sampling(self) -> None:
        ok = is_number(self.temperature) and self.temperature >= 0
        self._check("temperature", ok, "must be a finite number of at least 0")
        ok = is_number(self.top_p) and 0 < self.top_p <= 1
        self._check("top_p", ok, "must be above 0 and at most 1")
        ok = is_int(self.top_k) and self.top_k >= -1
        self._check("top_k", ok, "must be a whole number of at least -1 (0 or -1: all)")
        ok = is_number(self.min_p) and 0 <= self.min_p <= 1
        self._check("min_p", ok, "must be from 0 to 1")
        ok = self.seed is None or is_int(self.seed)
        self._check("seed", ok, "must be a whole number or None")
        self._check("n", is_int(self.n) and self.n >= 1, "must be a whole number of at least 1")
        rule = "asks for the same text several times: use temperature > 0, or n=1"
        self._check("n", self.n == 1 or self.temperature > 0, rule)

    def _check_penalties(self) -> None:
        for name in ("presence_penalty", "frequency_penalty"):
            value = getattr(self, name)
            self._check(name, is_number(value) and -2 <= value <= 2, "must be from -2 to 2")
        ok = is_number(self.repetition_penalty) and self.repetition_penalty > 0
        self._check("repetition_penalty", ok, "must be above 0 (1 is none)")

    def _check_ends(self) -> None:
        ok = self.max_tokens is None or (is_int(self.max_tokens) and self.max_tokens >= 1)
        self._check("max_tokens", ok, "must be a whole number of at least 1, or None")
        ok = is_int(self.min_tokens) and self.min_tokens >= 0
        self._check("min_tokens", ok, "must be a whole number of at least 0")
        ok = self.max_tokens is None or self.min_tokens <= self.max_tokens
        self._check("min_tokens", ok, f"is more than max_tokens={self.max_tokens}")

    def _logit_bias(self) -> dict[int, float]:
        rule = "must map token ids (whole numbers of at least 0) to finite numbers"
        bias: Any = {} if self.logit_bias is None else self.logit_bias
        ok = isinstance(bias, Mapping) and all(
            is_int(token_id) and token_id >= 0 and is_number(value)
            for token_id, value in bias.items()
        )
        self._check("logit_bias", ok, rule)
        return {token_id: max(-100.0, min(100.0, value)) for token_id, value in bias.items()}

    def _texts(self, name: str) -> tuple[str, ...]:
        value: Any = getattr(self, name)
        value = () if value is None else (value,) if isinstance(value, str) else value
        ok = isinstance(value, Sequence) and not isinstance(value, bytes)
        ok = ok and all(isinstance(text, str) and text for text in value)
        self._check(name, ok, "must be a list of texts, none of them empty")
        return tuple(value)

    def _token_ids(self) -> tuple[int, ...]:
        value: Any = () if self.stop_token_ids is None else self.stop_token_ids
        ok = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        ok = ok and all(is_int(token_id) and token_id >= 0 for token_id in value)
        rule = "must be a list of token ids, each a whole number of at least 0"
        self._check("stop_token_ids", ok, rule)
        return tuple(value)

    def _copy(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the caller's own list or dict stays theirs

    def _check(self, name: str, ok: bool, rule: str) -> None:
        if not ok:
            raise RequestError(f"{name}={getattr(self, name)!r} {rule}")
