"""The tokenizer: loaded by transformers, and asked only what the engine needs.

Next file to read: `input_processor.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minivllm.errors import CheckpointError, RequestError
from minivllm.sampling_params import SamplingParams


def load_tokenizer(folder: Path) -> Any:
    """The Hugging Face tokenizer in `folder`; code that came with it is never run.

    Raises:
        CheckpointError: There is none, or its files are damaged.
    """
    from transformers import AutoTokenizer  # takes seconds to import: only who needs it pays

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"no usable tokenizer in {folder}: {error}. It needs tokenizer.json and "
            "tokenizer_config.json; name another folder with tokenizer=..."
        ) from error


def default_sampling_params(generation_config: Mapping[str, Any]) -> SamplingParams:
    """What a request samples with that brings no parameters: the model's own defaults.

    Raises:
        CheckpointError: One of them is out of its range.
    """
    if generation_config.get("do_sample") is False:
        return SamplingParams(temperature=0)
    names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    given = {n: generation_config[n] for n in names if generation_config.get(n) is not None}
    try:
        return SamplingParams(**given)
    except RequestError as error:
        raise CheckpointError(f"generation_config.json: {error}") from error


def check_is_encodable(name: str, text: str) -> None:
    """Refuse half of a surrogate pair, which is no character.

    Raises:
        RequestError: `text` has one; `name` says where it came from.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"{name}={text!r} has no UTF-8 form: the character at {error.start} is half of a "
            "surrogate pair; decode the text with errors='replace' where it comes from"
        ) from error


def chat_token_ids(tokenizer: Any, messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """The token ids of a conversation, rendered by the tokenizer's own chat template.

    The template writes the special tokens itself, so nothing is added to what it gives.

    Raises:
        RequestError: The tokenizer has no chat template, or the conversation does not fit it.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise RequestError(
            "this model's tokenizer has no chat template: use generate() with plain text, or a "
            "model that was trained to chat"
        )
    if not messages:
        raise RequestError("messages=[] is empty: a chat needs at least one message")
    for message in messages:
        _check_message(message)
    token_ids = tokenizer.apply_chat_template(
        list(messages), add_generation_prompt=True, tokenize=True, return_dict=False
    )
    return [int(token_id) for token_id in token_ids]


def _check_message(message: Any) -> None:
    if isinstance(message, Mapping) and {"role", "content"} <= set(message):
        role, content = message["role"], message["content"]
        if isinstance(role, str) and isinstance(content, str):
            check_is_encodable("content", content)
            return
    raise RequestError(
        f'message {message!r} must be a dict such as {{"role": "user", "content": "Hello"}}'
    )
