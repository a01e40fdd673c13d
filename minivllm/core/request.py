"""Request: the state of one prompt on its way through the scheduler.

Owned by the Scheduler; the block manager and the stop rules read it. It knows nothing of text, of
tensors, or of the worker's rows.
Next file to read: `scheduler.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from minivllm.outputs import FinishReason
from minivllm.sampling_params import SamplingParams


class RequestStatus(Enum):
    """Where a request stands."""

    WAITING = auto()
    RUNNING = auto()
    PREEMPTED = auto()  # waiting again, after it ran
    FINISHED = auto()


@dataclass(kw_only=True, slots=True, eq=False)
class Request:
    """One prompt, the tokens generated for it, and how far the KV cache has followed.

    The scheduler's only rule is that `num_computed_tokens` catches up with `num_tokens`. A new
    request is behind by its prompt, a decoding one by its last token, a preempted one by
    everything:

        token_ids   [p p p p p p g g g]     p: prompt   g: generated
                     |         |       |
                     0   num_computed  num_tokens

    Attributes:
        request_id: Its name.
        token_ids: The prompt, followed by what was generated so far.
        sampling_params: What the user asked for.
        max_model_len: Most tokens, prompt and output, that the engine allows.
        seed: Of its random numbers: `sampling_params.seed`, or one derived by the engine.
        eos_token_ids: The model's end-of-text ids; empty where they are ignored.
        bad_words_token_ids: `sampling_params.bad_words` as tokens, in each of their spellings.
        priority: Smaller runs first, where the policy is "priority".
        arrival: Its place in the order of arrival.
        num_prompt_tokens: How many of `token_ids` are the prompt. Never changes.
        max_num_tokens: It ends once `token_ids` is this long.
        stop_token_ids: All ids that end it, `eos_token_ids` among them.
        status: Where it stands.
        num_computed_tokens: Leading tokens whose keys and values are in the cache.
        num_in_flight: Tokens that are being sampled and stand in no list yet; 0 between steps that
            run one after the other.
        num_slots: Tokens that the blocks of its table have room for.
        block_hashes: Hashes of its full blocks, as far as they were needed so far.
        num_cached_blocks: Leading blocks of its table that are in the prefix cache.
        num_cached_tokens: Prompt tokens the prefix cache saved; `None` before it first ran.
        num_preemptions: How often it lost its blocks.
        finish_reason: Why it ended; `None` before.
        stop_reason: The stop token id that ended it, if one did.
    """

    request_id: str
    token_ids: list[int]
    sampling_params: SamplingParams
    max_model_len: int
    seed: int = 0
    eos_token_ids: frozenset[int] = frozenset()
    bad_words_token_ids: Sequence[Sequence[int]] = ()
    priority: int = 0
    arrival: int = 0

    num_prompt_tokens: int = field(init=False)
    max_num_tokens: int = field(init=False)
    stop_token_ids: frozenset[int] = field(init=False)
    status: RequestStatus = field(init=False, default=RequestStatus.WAITING)
    num_computed_tokens: int = field(init=False, default=0)
    num_in_flight: int = field(init=False, default=0)
    num_slots: int = field(init=False, default=0)
    block_hashes: list[bytes] = field(init=False, default_factory=list, repr=False)
    num_cached_blocks: int = field(init=False, default=0)
    num_cached_tokens: int | None = field(init=False, default=None)
    num_preemptions: int = field(init=False, default=0)
    finish_reason: FinishReason | None = field(init=False, default=None)
    stop_reason: int | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        params = self.sampling_params
        self.token_ids = list(self.token_ids)  # a copy: the prompt belongs to the caller
        self.num_prompt_tokens = len(self.token_ids)
        max_tokens = params.max_tokens or self.max_model_len
        self.max_num_tokens = min(self.num_prompt_tokens + max_tokens, self.max_model_len)
        if params.ignore_eos:
            self.eos_token_ids = frozenset()
        self.stop_token_ids = self.eos_token_ids.union(params.stop_token_ids or ())

    @property
    def num_tokens(self) -> int:
        """Tokens known so far, prompt and generated."""
        return len(self.token_ids)

    @property
    def output_token_ids(self) -> list[int]:
        """The generated tokens."""
        return self.token_ids[self.num_prompt_tokens :]

    def forget_computed(self, status: RequestStatus) -> None:
        """Count none of its tokens as computed, as its blocks are gone."""
        self.status = status
        self.num_computed_tokens = 0
        self.num_slots = 0
        self.num_cached_blocks = 0
