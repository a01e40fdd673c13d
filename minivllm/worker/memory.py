"""What the worker needs to know of memory: how much there is, and how much a step can take.

Next file to read: `worker.py`.
"""

from __future__ import annotations

import os

from minivllm.config import SchedulerConfig
from minivllm.messages import NewRequestData, SchedulerOutput
from minivllm.sampling_params import SamplingParams

GIB = 1024**3


def physical_memory() -> int:
    """Bytes of main memory in this machine, in use or not."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def largest_plan(config: SchedulerConfig, block_size: int) -> SchedulerOutput:
    """A step that fills the token budget, with as many requests as can share it.

    Tokens cost activations and requests cost a row of logits each, so this is the step that takes
    most memory. Its blocks are numbered from 0.
    """
    assert config.max_num_batched_tokens is not None, "the engine resolves the config first"
    assert config.max_model_len is not None, "the engine resolves the config first"
    left, next_block = config.max_num_batched_tokens, 0
    requests: list[NewRequestData] = []
    while left and len(requests) < config.max_num_seqs:
        share = -(-left // (config.max_num_seqs - len(requests)))
        num_tokens = min(share, config.max_model_len - 1)  # one place is for the sampled token
        num_blocks = -(-num_tokens // block_size)
        new = NewRequestData(
            request_id=f"largest-{len(requests)}",
            token_ids=[0] * num_tokens,
            num_prompt_tokens=num_tokens,
            sampling_params=SamplingParams(),
            seed=0,
            block_ids=range(next_block, next_block + num_blocks),
            num_computed_tokens=0,
        )
        requests.append(new)
        left, next_block = left - num_tokens, next_block + num_blocks
    num_scheduled_tokens = {new.request_id: len(new.token_ids) for new in requests}
    return SchedulerOutput(
        step=0,
        new_requests=requests,
        num_scheduled_tokens=num_scheduled_tokens,
        total_num_scheduled_tokens=sum(num_scheduled_tokens.values()),
    )
