"""The messages that cross the engine's inner borders: plain data, frozen, no tensor.

    core.scheduler --SchedulerOutput--> executor -> worker --ModelRunnerOutput--> core.scheduler
    core.scheduler --EngineCoreOutput--> engine

The worker keeps one row per live request. Its rows are a cache of the scheduler's state: a request
crosses once in full (`NewRequestData`), later only what changed (`CachedRequestData`, one list per
field rather than one object per request). Everything here can be pickled, so a process border can
stand at any of the arrows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from minivllm.outputs import FinishReason
from minivllm.sampling_params import SamplingParams


@dataclass(frozen=True, kw_only=True, slots=True)
class NewRequestData:
    """A request the worker has no row for: just admitted, or resumed after a preemption.

    Attributes:
        request_id: Its id.
        token_ids: All tokens known so far; after a preemption that includes generated ones.
        num_prompt_tokens: How many of them are the prompt.
        sampling_params: How to choose its tokens.
        seed: The seed of its random numbers, `sampling_params.seed` or a derived one.
        block_ids: Its physical blocks, cached prefix first.
        num_computed_tokens: Leading tokens whose keys and values are in the cache already.
        stop_token_ids: What must not be sampled before `sampling_params.min_tokens` tokens are
            generated: the model's end-of-text ids and the request's stop ids.
        bad_words_token_ids: `sampling_params.bad_words` as tokens, in each of their spellings.
    """

    request_id: str
    token_ids: Sequence[int]
    num_prompt_tokens: int
    sampling_params: SamplingParams
    seed: int
    block_ids: Sequence[int]
    num_computed_tokens: int
    stop_token_ids: Sequence[int] = ()
    bad_words_token_ids: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CachedRequestData:
    """What changed for requests the worker has a row for; entry i of each list is one request.

    Attributes:
        request_ids: The requests.
        num_computed_tokens: Tokens whose keys and values are in the cache before this step.
        new_block_ids: Blocks to append to each request's block table, mostly none.
    """

    request_ids: Sequence[str] = ()
    num_computed_tokens: Sequence[int] = ()
    new_block_ids: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerOutput:
    """The plan of one step.

    Attributes:
        step: The number of the step, from 0.
        new_requests: Requests that start, or start again.
        cached_requests: Requests that go on.
        num_scheduled_tokens: How many tokens each request of this step computes, in row order.
        total_num_scheduled_tokens: Their sum; 0 means there is nothing to run.
        preempted_request_ids: Requests that lost their blocks since the last plan.
        finished_request_ids: Requests that ended or were aborted since the last plan.
    """

    step: int
    new_requests: Sequence[NewRequestData] = ()
    cached_requests: CachedRequestData = field(default_factory=CachedRequestData)
    num_scheduled_tokens: Mapping[str, int]
    total_num_scheduled_tokens: int
    preempted_request_ids: Sequence[str] = ()
    finished_request_ids: Sequence[str] = ()


class TokenLogprobs(NamedTuple):
    """Log-probabilities at one place of a text, from the raw logits; entry i of each is one token.

    The first entry is the token that stands there, the others are the most likely ones.
    """

    token_ids: Sequence[int]
    logprobs: Sequence[float]
    ranks: Sequence[int]  # 1 is the most likely


class PromptLogprobs(NamedTuple):
    """Log-probabilities of the prompt tokens from position `start` on, as far as a step got.

    Attributes:
        start: The position of the first; 1 or more, as nothing comes before token 0.
        tokens: One entry per prompt token.
    """

    start: int
    tokens: Sequence[TokenLogprobs]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRunnerOutput:
    """The tokens of one step: `sampled_token_ids[i]` belongs to `request_ids[i]`.

    A request whose scheduled tokens end before its last known token (a chunk of a prompt) samples
    nothing and is not listed.

    Attributes:
        request_ids: Who got a token.
        sampled_token_ids: Which.
        logprobs: By request, of the sampled token, for those that ask.
        prompt_logprobs: By request, for those that ask and computed prompt tokens in this step.
    """

    request_ids: Sequence[str] = ()
    sampled_token_ids: Sequence[int] = ()
    logprobs: Mapping[str, TokenLogprobs] = field(default_factory=dict)
    prompt_logprobs: Mapping[str, PromptLogprobs] = field(default_factory=dict)


@dataclass(slots=True)
class EngineCoreOutput:
    """What one step did for one request, on its way to becoming text.

    Not frozen, unlike the others: one is made per request and step, and freezing it would take
    several times as long.

    Attributes:
        request_id: The request.
        new_token_ids: Tokens generated in this step.
        finish_reason: Why it ended; `None` while it runs.
        stop_reason: The stop token id that ended it, if one of `stop_token_ids` did.
        logprobs: Of the new token, if asked for.
        prompt_logprobs: Of the prompt tokens computed in this step, if asked for. A step can bring
            these without a new token.
    """

    request_id: str
    new_token_ids: tuple[int, ...]
    finish_reason: FinishReason | None = None
    stop_reason: int | None = None
    logprobs: TokenLogprobs | None = None
    prompt_logprobs: PromptLogprobs | None = None
