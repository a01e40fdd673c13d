"""CompletionState: one continuation while it grows, from the core's news to a `CompletionOutput`.

News is taken in two steps. `take` only notes it: nothing in there can fail, so no token is ever
lost. `update` makes text of it, with the tokenizer, which is foreign code.
Next file to read: `text_builder.py`.
"""

from __future__ import annotations

from collections import deque

from minivllm.core.request import Request
from minivllm.engine.detokenizer import TokenDecoder
from minivllm.engine.logprobs import LogprobsCollector
from minivllm.engine.text_builder import TextBuilder
from minivllm.messages import EngineCoreOutput, PromptLogprobs, TokenLogprobs
from minivllm.outputs import CompletionOutput, FinishReason


class CompletionState:
    """One of the continuations of a prompt.

    Attributes:
        index: Which.
        request: The core's side of it, which is only read here.
        token_ids: The generated tokens.
        finish_reason: Why it ended; `None` while it runs.
        logprobs: Its log-probabilities, and those of the prompt.
    """

    def __init__(self, index: int, request: Request, decoder: TokenDecoder) -> None:
        params = request.sampling_params
        self.index = index
        self.request = request
        self.token_ids: list[int] = []
        self.finish_reason: FinishReason | None = None
        self.logprobs = LogprobsCollector(decoder, params)
        self._stop_reason: int | str | None = None
        self._text_builder = TextBuilder(decoder, params) if params.detokenize else None
        self._num_read = 0  # tokens that the text builder has
        self._num_to_read = 0
        self._new_logprobs: deque[TokenLogprobs] = deque()
        self._new_prompt_logprobs: deque[PromptLogprobs] = deque()

    def take(self, news: EngineCoreOutput) -> None:
        """Note what a step brought."""
        self.token_ids.extend(news.new_token_ids)
        self._num_to_read = len(self.token_ids)
        if news.logprobs is not None:
            self._new_logprobs.append(news.logprobs)
        if news.prompt_logprobs is not None:
            self._new_prompt_logprobs.append(news.prompt_logprobs)
        if news.finish_reason is not None:
            self.finish_reason, self._stop_reason = news.finish_reason, news.stop_reason
        keeps_stop_token = self.request.sampling_params.include_stop_str_in_output
        if news.finish_reason == "stop" and not keeps_stop_token:
            self._num_to_read -= 1  # the token that ends a text is not part of it

    def update(self) -> bool:
        """Bring text and log-probabilities up to date; gives whether a stop string ended it now."""
        while self._new_prompt_logprobs:
            self.logprobs.add_prompt(self._new_prompt_logprobs[0])
            self._new_prompt_logprobs.popleft()
        while self._new_logprobs:
            self.logprobs.add(self._new_logprobs[0])
            self._new_logprobs.popleft()
        builder = self._text_builder
        if builder is None:
            return False
        builder.add(self.token_ids[self._num_read : self._num_to_read])
        self._num_read = self._num_to_read
        if self.finish_reason is not None:
            builder.finish()
        if builder.stop_string is None or self._stop_reason == builder.stop_string:
            return False
        self.finish_reason, self._stop_reason = "stop", builder.stop_string
        return True

    def output(self) -> CompletionOutput:
        """What its user gets to see now; of a running one, only text that is certain to stay."""
        builder, found = self._text_builder, self.logprobs
        text = ""
        if builder is not None:
            text = builder.shown_text if self.finish_reason is None else builder.text
        return CompletionOutput(
            index=self.index,
            text=text,
            token_ids=tuple(self.token_ids),
            finish_reason=self.finish_reason,
            stop_reason=self._stop_reason,
            logprobs=None if found.logprobs is None else list(found.logprobs),
            cumulative_logprob=found.cumulative_logprob,
        )
