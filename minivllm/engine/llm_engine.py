"""LLMEngine: requests as text in, outputs as text out, one `step` at a time.

It stands around `EngineCore`, which knows token ids only. `minivllm/llm.py` drives it in a loop;
use it directly to add requests while others run.
Next file to read: `input_processor.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from minivllm.config import LLMConfig
from minivllm.engine.core import EngineCore
from minivllm.engine.input_processor import InputProcessor, ModelLimits, Prompt
from minivllm.engine.output_processor import Inbox, OutputProcessor
from minivllm.engine.stats import EngineStats
from minivllm.engine.tokenizer import default_sampling_params, load_tokenizer
from minivllm.hub import resolve_model
from minivllm.models.hf_config import (
    eos_token_ids,
    parse_config,
    read_config,
    read_generation_config,
)
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import SamplingParams
from minivllm.trace import Trace


class LLMEngine:
    """A model that serves many requests at once.

    Attributes:
        config: What it was built from, with the context length and token budget filled in.
        tokenizer: The Hugging Face tokenizer.
        trace: The decisions made so far; `None` if they are not recorded.
        core: The loop body, and the scheduler and executor inside it.
    """

    def __init__(self, config: LLMConfig) -> None:
        """Find and load model and tokenizer, and allocate the KV cache.

        Raises:
            ModelNotFoundError: The name leads nowhere.
            CheckpointError: Its files are damaged, or of an architecture that is not supported.
            ConfigError: A setting does not fit the model or the machine.
        """
        model_config = config.model_config
        folder = resolve_model(model_config.model)
        arch, generation_config = parse_config(read_config(folder)), read_generation_config(folder)
        scheduler_config = config.scheduler_config.resolved(arch.max_position_embeddings)
        assert scheduler_config.max_model_len is not None, "resolved leaves no None"
        self.config = replace(config, scheduler_config=scheduler_config)
        tokenizer_name = model_config.tokenizer
        self.tokenizer = load_tokenizer(resolve_model(tokenizer_name) if tokenizer_name else folder)
        eos_ids = set(eos_token_ids(arch, generation_config))
        if self.tokenizer.eos_token_id is not None:
            eos_ids.add(self.tokenizer.eos_token_id)
        limits = ModelLimits(
            vocab_size=arch.vocab_size,
            max_model_len=scheduler_config.max_model_len,
            eos_token_ids=frozenset(i for i in eos_ids if i < arch.vocab_size),
            default_params=default_sampling_params(generation_config),
            seed=model_config.seed,
        )
        self.trace = Trace() if config.trace else None
        self._input_processor = InputProcessor(self.tokenizer, limits)
        self.core = EngineCore(self.config, arch, folder, self.trace)
        self._output_processor = OutputProcessor(self.tokenizer, self.core.abort, self.core.stats)
        self._inbox: Inbox = {}  # of requests that brought none of their own

    def add_request(
        self,
        request_id: str,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        priority: int = 0,
        stream: bool = True,
        inbox: Inbox | None = None,
    ) -> str:
        """Queue a prompt; gives its id back.

        With `n > 1` the core gets n requests, named `request_id#0` and so on.

        Args:
            request_id: A name that no unfinished request has.
            prompt: Text, token ids, or a dict with one of the two.
            params: How to sample; `None` takes the defaults of the model's generation config.
            priority: Smaller runs first, where the policy is "priority".
            stream: Report it in each step in which it gets a token, not only at its end.
            inbox: Where its outputs go, under its id; `None` lets `step` give them.

        Raises:
            RequestError: It can never be served; other requests are not affected.
        """
        text, requests = self._input_processor.process(request_id, prompt, params, priority)
        inbox = self._inbox if inbox is None else inbox
        self._output_processor.add_request(
            request_id, text, requests, is_streamed=stream, inbox=inbox
        )
        try:
            for request in requests:
                self.core.add_request(request)
        except BaseException:  # all continuations, or none
            self.abort(request_id)
            raise
        return request_id

    def step(self) -> list[RequestOutput]:
        """One step; gives the outputs of requests that ended or, if streamed, got a token.

        Those that brought an inbox are left out. Those from steps that `LLM.generate` and
        `LLM.stream` took in the meantime are in it, the latest of each request.
        """
        self.advance()
        outputs = list(self._inbox.values())
        self._inbox.clear()
        return outputs

    def advance(self) -> None:
        """One step; its outputs stay in the inboxes."""
        try:
            self._output_processor.process(self.core.step())
        except BaseException:  # Ctrl-C too: no token that was entered may be lost
            self._output_processor.process(self.core.take_entered())
            self._output_processor.catch_up()
            raise

    def abort(self, request_ids: str | Iterable[str]) -> list[RequestOutput]:
        """End requests early, with what they have so far; unknown and ended ids are ignored."""
        request_ids = [request_ids] if isinstance(request_ids, str) else list(request_ids)
        outputs = self._output_processor.abort(request_ids)
        for output in outputs:
            self._inbox.pop(output.request_id, None)
        return outputs

    def has_unfinished_requests(self) -> bool:
        """Whether another step has something to do, or something to give."""
        waits_for_step = bool(self._inbox) or self._output_processor.has_news
        return self.core.has_unfinished_requests() or waits_for_step

    def stats(self) -> EngineStats:
        """What was done since the engine was built, in numbers."""
        return self.core.stats.stats(self.core.kv_cache_manager.usage)

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix. Gives `False`, and does nothing, while requests run."""
        return self.core.reset_prefix_cache()

    def shutdown(self) -> None:
        """Give back weights and cache; a second call does nothing."""
        self.core.shutdown()
