"""LogprobsCollector: log-probabilities as the worker reports them become what the user gets.

Next file to read: `minivllm/llm.py` once more, where the outputs are sorted.
"""

from __future__ import annotations

from minivllm.engine.detokenizer import TokenDecoder
from minivllm.messages import PromptLogprobs, TokenLogprobs
from minivllm.outputs import Logprob
from minivllm.sampling_params import SamplingParams

Ranked = dict[int, Logprob]  # token id -> how likely; the token that stands there comes first


class LogprobsCollector:
    """The log-probabilities of one continuation.

    Attributes:
        logprobs: One dict per generated token; `None` if not asked for.
        prompt_logprobs: One entry per prompt token, `None` for the first; `None` if not asked for.
        cumulative_logprob: The sum over the generated tokens; `None` if not asked for.
    """

    def __init__(self, decoder: TokenDecoder, params: SamplingParams) -> None:
        self._decoder = decoder if params.detokenize else None
        self.logprobs: list[Ranked] | None = None if params.logprobs is None else []
        self.cumulative_logprob = None if params.logprobs is None else 0.0
        self.prompt_logprobs: list[Ranked | None] | None = (
            None if params.prompt_logprobs is None else [None]
        )

    def add(self, tokens: TokenLogprobs) -> None:
        """Take those of one generated token."""
        assert self.logprobs is not None, "only who asks for logprobs gets them"
        assert self.cumulative_logprob is not None, "it is there where logprobs are"
        self.logprobs.append(self._ranked(tokens))
        self.cumulative_logprob += tokens.logprobs[0]

    def add_prompt(self, prompt_logprobs: PromptLogprobs) -> None:
        """Take those of some prompt tokens; those known already come again after a preemption."""
        assert self.prompt_logprobs is not None, "only who asks for prompt logprobs gets them"
        num_known = len(self.prompt_logprobs) - prompt_logprobs.start
        for tokens in prompt_logprobs.tokens[max(0, num_known) :]:
            self.prompt_logprobs.append(self._ranked(tokens))

    def _ranked(self, tokens: TokenLogprobs) -> Ranked:
        return {
            token_id: Logprob(logprob, rank, self._text(token_id))
            for token_id, logprob, rank in zip(*tokens, strict=True)
        }

    def _text(self, token_id: int) -> str | None:
        return None if self._decoder is None else self._decoder.decode([token_id])
