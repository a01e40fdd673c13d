"""LLM: the front door. Prompts in, `RequestOutput`s out, in the order of the prompts.

The spelling is vLLM's. All this file does is to turn keywords into a config, add one request per
prompt, and call `step` until none is left.
Next file to read: `minivllm/engine/llm_engine.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from tqdm import tqdm

from minivllm.config import LLMConfig
from minivllm.engine.input_processor import Prompt
from minivllm.engine.llm_engine import LLMEngine
from minivllm.engine.stats import EngineStats
from minivllm.engine.tokenizer import chat_token_ids
from minivllm.errors import ConfigError, RequestError
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import SamplingParams
from minivllm.trace import Trace

Messages = Sequence[Mapping[str, Any]]


class LLM:
    """A model, ready to generate.

    >>> llm = LLM()                                                          # doctest: +SKIP
    >>> llm.generate("Once upon a time", SamplingParams(max_tokens=16))      # doctest: +SKIP

    Attributes:
        engine: The engine underneath, for adding requests while others run.
    """

    def __init__(self, model: str | Path | LLMConfig | None = None, **keywords: Any) -> None:
        """Load a model.

        Args:
            model: A name, a folder, or a complete `LLMConfig`; `None` is the default model.
            **keywords: Any field of the configs in `minivllm/config.py`, such as
                `max_model_len=512` or `block_size=16`. Not together with an `LLMConfig`.

        Raises:
            ConfigError: A keyword is unknown, or a setting does not fit the model or machine.
            ModelNotFoundError: The name leads nowhere.
            CheckpointError: The model's files are damaged or not supported.
        """
        if isinstance(model, LLMConfig):
            if keywords:
                raise ConfigError(
                    f"LLM got an LLMConfig and also {', '.join(sorted(keywords))}: "
                    "put these into the config"
                )
            config = model
        else:
            named = {} if model is None else {"model": model}
            config = LLMConfig.from_keywords(**named, **keywords)
        self.engine = LLMEngine(config)
        self._request_numbers = count()

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        priority: Sequence[int] | None = None,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Generate a continuation of each prompt, all in one batch.

        Args:
            prompts: One prompt or many: text, token ids, or a dict with one of the two.
            sampling_params: One for all or one for each; `None` takes the model's own defaults.
            priority: One for each prompt; smaller runs first, where the policy is "priority".
            use_tqdm: Show a progress bar.

        Returns:
            One output per prompt, in their order.

        Raises:
            RequestError: A prompt can't be served; then none is.
        """
        prompts = _as_list(prompts)
        params = _one_each("sampling_params", sampling_params, len(prompts))
        priorities = _one_each("priority", priority if priority is not None else 0, len(prompts))
        request_ids: list[str] = []
        ended: dict[str, RequestOutput] = {}
        try:
            for prompt, param, prio in zip(prompts, params, priorities, strict=True):
                request_id = self._new_request_id()
                request_ids.append(request_id)
                self.engine.add_request(
                    request_id, prompt, param, priority=prio, stream=False, inbox=ended
                )
            with tqdm(total=len(prompts), desc="prompts", disable=not use_tqdm, unit="") as bar:
                while len(ended) < len(request_ids):
                    self.engine.advance()
                    bar.update(len(ended) - bar.n)
        except BaseException:  # Ctrl-C too: the next call must find an engine without leftovers
            self.engine.abort(request_ids)
            raise
        return [ended[request_id] for request_id in request_ids]

    def chat(
        self,
        messages: Messages | Sequence[Messages],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Generate the next turn of a conversation, or of each of several.

        Args:
            messages: `[{"role": "user", "content": "Hello"}, ...]`, or a list of such lists.
            sampling_params: One for all or one for each; `None` takes the model's own defaults.
            use_tqdm: Show a progress bar.

        Raises:
            RequestError: The model has no chat template, or a conversation can't be served.
        """
        is_single = bool(messages) and isinstance(messages[0], Mapping)
        conversations: Any = [messages] if is_single else messages
        prompts = [chat_token_ids(self.engine.tokenizer, each) for each in conversations]
        return self.generate(prompts, sampling_params, use_tqdm=use_tqdm)

    def stream(
        self, prompt: Prompt, sampling_params: SamplingParams | None = None
    ) -> Iterator[str]:
        """The continuation of one prompt, piece by piece, as it is generated.

        The pieces together are the text that `generate` would give. Leaving the loop early ends
        the request. Other requests of this engine go on while a piece is waited for.

        Raises:
            RequestError: The prompt can't be served, or several continuations are asked for.
        """
        if sampling_params is not None and getattr(sampling_params, "n", 1) != 1:
            raise RequestError(
                f"n={sampling_params.n} continuations can't share one stream of text: use n=1, or "
                "generate()"
            )
        request_id = self._new_request_id()
        inbox: dict[str, RequestOutput] = {}
        self.engine.add_request(request_id, prompt, sampling_params, inbox=inbox)
        pieces = self._pieces(request_id, inbox)
        next(pieces)  # into its `try`: from now on, dropping it aborts the request
        return pieces

    def _pieces(self, request_id: str, inbox: dict[str, RequestOutput]) -> Iterator[str]:
        num_given, is_finished = 0, False
        try:
            yield ""  # for `stream`, not for its caller
            while not is_finished:
                self.engine.advance()
                output = inbox.pop(request_id, None)
                if output is None:
                    continue
                is_finished = output.finished
                if len(output.output_text) > num_given:
                    yield output.output_text[num_given:]
                    num_given = len(output.output_text)
        finally:
            self.engine.abort(request_id)

    def _new_request_id(self) -> str:
        return f"llm-{next(self._request_numbers)}"

    def get_tokenizer(self) -> Any:
        """The Hugging Face tokenizer."""
        return self.engine.tokenizer

    @property
    def trace(self) -> Trace | None:
        """The decisions made so far; `None` unless built with `trace=True`."""
        return self.engine.trace

    def stats(self) -> EngineStats:
        """What was done since the model was loaded: tokens, times, hit rate, KV-cache use."""
        return self.engine.stats()

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix. Gives `False`, and does nothing, while requests run."""
        return self.engine.reset_prefix_cache()

    def shutdown(self) -> None:
        """Give back weights and cache; a second call does nothing."""
        self.engine.shutdown()

    def __enter__(self) -> LLM:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()


def _as_list(prompts: Prompt | Sequence[Prompt]) -> list[Any]:
    """Many prompts as they are, one prompt as a list of one; a list of numbers is one prompt."""
    if isinstance(prompts, str | Mapping):
        return [prompts]
    if not isinstance(prompts, Sequence) or isinstance(prompts, bytes):
        raise RequestError(f"prompts={prompts!r} must be a prompt or a list of prompts")
    is_token_ids = bool(prompts) and all(isinstance(token_id, int) for token_id in prompts)
    return [prompts] if is_token_ids else list(prompts)


def _one_each(name: str, value: Any, num_prompts: int) -> list[Any]:
    """`value` for each prompt, whether one was given for all or one for each."""
    if not isinstance(value, Sequence):
        return [value] * num_prompts
    if len(value) != num_prompts:
        raise RequestError(
            f"{name} has {len(value)} entries for {num_prompts} prompts: give one, or one for each"
        )
    return list(value)
