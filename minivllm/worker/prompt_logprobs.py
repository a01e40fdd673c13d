"""Log-probabilities of prompt tokens, for the requests that ask.

A hidden state predicts the token after its own. So a step that computes a prompt's tokens from
position 4 on tells about those from position 5 on, as far as the prompt goes:

    computed positions     4 5 6 7          of a prompt of 7 tokens, 0 to 6, and one generated
    predicted              5 6              7 and 8 are output

Logits are made for these rows only, a few at a time: a long prompt has many, each as long as the
vocabulary.
Next file to read: `minivllm/sample/logprobs.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from minivllm.messages import PromptLogprobs, TokenLogprobs
from minivllm.sample.logprobs import token_logprobs
from minivllm.worker.input_batch import InputBatch

_ROWS_AT_ONCE = 64


def prompt_logprobs(
    batch: InputBatch,
    num_scheduled_tokens: Mapping[str, int],
    hidden_states: Float[Tensor, "num_tokens hidden_size"],
    compute_logits: Callable[[Tensor], Tensor],
) -> dict[str, PromptLogprobs]:
    """What this step's hidden states, one per scheduled token, tell about prompt tokens.

    A request that was preempted computes its prompt again, and so reports it again.
    """
    if not batch.num_prompt_logprobs:
        return {}
    found, first_row = {}, 0
    for request_id, num_tokens in num_scheduled_tokens.items():
        row = batch.row_of[request_id]
        start = int(batch.num_computed_tokens[row]) + 1
        end = min(start + num_tokens, int(batch.num_prompt_tokens[row]))
        num_top = batch.num_prompt_logprobs.get(request_id)
        if num_top is not None and start < end:
            states = hidden_states[first_row : first_row + end - start]
            targets = torch.from_numpy(batch.token_ids[row, start:end]).to(states.device)
            all_rows = torch.arange(len(targets), device=states.device)
            tokens: list[TokenLogprobs] = []
            for rows in torch.split(all_rows, _ROWS_AT_ONCE):
                logits = compute_logits(states[rows])
                tokens += token_logprobs(logits, targets[rows], [num_top] * len(rows))
            found[request_id] = PromptLogprobs(start, tokens)
        first_row += num_tokens
    return found
