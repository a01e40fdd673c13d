"""InputProcessor: a prompt as the user wrote it becomes a `Request`, or a clear error.

All that could make a request fail later is checked here, before it is queued: an error reaches the
caller who made it, and disturbs no other request.
Next file to read: `core.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from minivllm.checks import is_int
from minivllm.core.request import Request
from minivllm.engine.tokenizer import check_is_encodable
from minivllm.errors import RequestError
from minivllm.sampling_params import SamplingParams

Prompt: TypeAlias = str | Sequence[int] | Mapping[str, Any]

_SEED_RANGE = 2**63  # seeds live in signed 64-bit columns


@dataclass(frozen=True, kw_only=True)
class ModelLimits:
    """What the model and the engine allow.

    Attributes:
        vocab_size: Token ids are below this.
        max_model_len: Most tokens of prompt and output together.
        eos_token_ids: Ids that end a text, from config, generation config and tokenizer.
        default_params: Used where a request brings no sampling parameters.
        seed: Of the engine; unseeded requests derive theirs from it.
    """

    vocab_size: int
    max_model_len: int
    eos_token_ids: frozenset[int]
    default_params: SamplingParams
    seed: int


class InputProcessor:
    """Makes requests, and numbers them in their order of arrival."""

    def __init__(self, tokenizer: Any, limits: ModelLimits) -> None:
        self._tokenizer = tokenizer
        self._limits = limits
        self._num_requests = 0

    def process(
        self, request_id: str, prompt: Prompt, params: SamplingParams | None, priority: int
    ) -> tuple[str | None, list[Request]]:
        """The prompt's text, if it was given as one, and a request for each continuation.

        Raises:
            RequestError: It can't be served; the message says why and what would help.
        """
        if not isinstance(request_id, str) or not request_id:
            raise RequestError(f"{request_id=} must be a non-empty string")
        if not is_int(priority):
            raise RequestError(f"{priority=} must be a whole number; smaller runs first")
        params = self._limits.default_params if params is None else params
        self._check_params(params)
        text, token_ids = self._tokenize(prompt)
        self._check_token_ids(token_ids, from_text=text is not None)
        bad_words = self._bad_words(params)
        number = self._num_requests
        self._num_requests += params.n
        seed = self._seed(params, number)
        requests = [
            Request(
                request_id=request_id if params.n == 1 else f"{request_id}#{index}",
                token_ids=token_ids,
                sampling_params=params if index == 0 else _without_prompt_logprobs(params),
                max_model_len=self._limits.max_model_len,
                seed=(seed + index) % _SEED_RANGE,
                eos_token_ids=self._limits.eos_token_ids,
                bad_words_token_ids=bad_words,
                priority=priority,
                arrival=number + index,
            )
            for index in range(params.n)
        ]
        return text, requests

    def _tokenize(self, prompt: Prompt) -> tuple[str | None, list[Any]]:
        if isinstance(prompt, Mapping):
            prompt = _prompt_in_dict(prompt)
        if isinstance(prompt, str):
            check_is_encodable("prompt", prompt)
            return prompt, [int(token_id) for token_id in self._tokenizer.encode(prompt)]
        if not isinstance(prompt, Sequence) or isinstance(prompt, bytes):
            raise RequestError(
                f"prompt={prompt!r} must be text, a list of token ids, or a dict with one of them"
            )
        return None, list(prompt)

    def _check_token_ids(self, token_ids: Sequence[Any], *, from_text: bool) -> None:
        if not token_ids:
            raise RequestError("the prompt is empty: it needs at least one token")
        vocab_size, limit = self._limits.vocab_size, self._limits.max_model_len
        for token_id in token_ids:
            if not is_int(token_id) or not 0 <= token_id < vocab_size:
                remedy = "the tokenizer does not fit the model" if from_text else "check the prompt"
                raise RequestError(
                    f"token id {token_id!r} is not one of the model's {vocab_size} (0 to "
                    f"{vocab_size - 1}): {remedy}"
                )
        if len(token_ids) >= limit:
            raise RequestError(
                f"the prompt has {len(token_ids)} tokens, but max_model_len={limit} must hold the "
                f"prompt and at least one new token: shorten it to {limit - 1} or less"
            )

    def _check_params(self, params: SamplingParams) -> None:
        if not isinstance(params, SamplingParams):
            raise RequestError(f"sampling_params={params!r} must be a SamplingParams")
        vocab_size = self._limits.vocab_size
        for name in ("stop_token_ids", "logit_bias"):
            for token_id in getattr(params, name) or ():
                if token_id >= vocab_size:
                    raise RequestError(
                        f"{name} holds {token_id}, but the model's ids end at {vocab_size - 1}"
                    )
        for name in ("logprobs", "prompt_logprobs"):
            num_top = getattr(params, name)
            if num_top is not None and num_top > vocab_size:
                raise RequestError(f"{name}={num_top} is more than the model's {vocab_size} tokens")

    def _bad_words(self, params: SamplingParams) -> list[list[int]]:
        """The tokens of each bad word, as a text begins with it and as it follows a space.

        The second is another word only where a tokenizer writes the space into its first token.
        """
        found = []
        for word in params.bad_words or ():
            check_is_encodable("bad_words", word)
            bare = word.lstrip() or word
            alone, spaced = (
                [int(i) for i in self._tokenizer.encode(text, add_special_tokens=False)]
                for text in (bare, f" {bare}")
            )
            found.append(alone)
            if len(spaced) == len(alone) and spaced[0] != alone[0]:
                found.append(spaced)
        for token_ids in found:
            if not token_ids or max(token_ids) >= self._limits.vocab_size:
                raise RequestError(
                    f"bad_words={list(params.bad_words or ())!r} become the tokens {found}, but "
                    f"the model's ids are 0 to {self._limits.vocab_size - 1}: the tokenizer does "
                    "not fit the model"
                )
        return found

    def _seed(self, params: SamplingParams, number: int) -> int:
        if params.seed is not None:
            return params.seed % _SEED_RANGE
        digest = hashlib.sha256(b"%d,%d" % (self._limits.seed, number)).digest()
        return int.from_bytes(digest[:8], "little") % _SEED_RANGE


def _without_prompt_logprobs(params: SamplingParams) -> SamplingParams:
    """For all continuations but the first, whose prompt is the same: they can use the cache."""
    return params if params.prompt_logprobs is None else replace(params, prompt_logprobs=None)


def _prompt_in_dict(prompt: Mapping[str, Any]) -> str | Sequence[int]:
    """The text under "prompt", or the ids under "prompt_token_ids"."""
    if list(prompt) == ["prompt"] and isinstance(prompt["prompt"], str):
        return prompt["prompt"]
    if list(prompt) == ["prompt_token_ids"] and not isinstance(prompt["prompt_token_ids"], str):
        token_ids: Sequence[int] = prompt["prompt_token_ids"]
        return token_ids
    raise RequestError(
        f"prompt={dict(prompt)!r} must be a dict with one key: 'prompt' with text, or "
        "'prompt_token_ids' with a list of token ids"
    )
