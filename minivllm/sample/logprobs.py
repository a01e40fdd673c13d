"""Log-probabilities to report: of the token that stands at a place, and of the most likely ones.

They are the model's own, from the raw logits: bias, bans, penalties, temperature and filters do not
show in them. So the sampler, which leaves the logits as they are, knows nothing of this file.
Next file to read: `minivllm/engine/logprobs.py`, which adds the text of each token.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from minivllm.messages import TokenLogprobs


def token_logprobs(
    logits: Float[Tensor, "num_rows vocab_size"],
    token_ids: Int64[Tensor, " num_rows"],
    nums_top: Sequence[int],
) -> list[TokenLogprobs]:
    """For each row the token of `token_ids`, then the `nums_top[i]` most likely others.

    A token that is among the most likely is not listed twice: the rank tells its place. The rank
    is 1 plus the number of tokens with a larger log-probability, so equals share it.
    """
    logprobs = logits.log_softmax(-1, dtype=torch.float32)
    chosen = logprobs.gather(-1, token_ids[:, None])
    rank = 1 + (logprobs > chosen).sum(-1, keepdim=True)
    top = most_likely(logprobs, min(max(nums_top), logprobs.shape[-1]))
    top_logprobs = logprobs.gather(-1, top)

    rows = zip(
        torch.cat((token_ids[:, None], top), -1).tolist(),
        torch.cat((chosen, top_logprobs), -1).tolist(),
        torch.cat((rank, ranks_of_sorted(top_logprobs)), -1).tolist(),
        strict=True,
    )
    return [
        _without_repeat(TokenLogprobs(*row), num_top)
        for row, num_top in zip(rows, nums_top, strict=True)
    ]


def most_likely(
    logprobs: Float[Tensor, "num_rows vocab_size"], num_top: int
) -> Int64[Tensor, "num_rows {num_top}"]:
    """The ids of the largest, the lowest ids first among equals.

    `topk` of the numbers themselves would choose among equals as it likes, and not the same on
    every device or beside other rows. So each token gets an integer of its own, the smaller the
    better: 32 bits for -logprob, as floats from 0 on sort like their bits, then 32 for its id.
    """
    keys = logprobs.abs().view(torch.int32).long()
    keys.bitwise_left_shift_(32).add_(torch.arange(keys.shape[-1], device=keys.device))
    return keys.topk(num_top, largest=False).values & 0xFFFFFFFF


def ranks_of_sorted(
    values: Float[Tensor, "num_rows num_top"],
) -> Int64[Tensor, "num_rows num_top"]:
    """The rank of each of the largest values: `[5.0, 3.0, 3.0, 1.0] -> [1, 2, 2, 4]`."""
    places = torch.arange(values.shape[-1], device=values.device).expand_as(values)
    is_new = torch.ones_like(places, dtype=torch.bool)
    is_new[:, 1:] = values[:, 1:] < values[:, :-1]
    return 1 + (places * is_new).cummax(-1).values


def _without_repeat(row: TokenLogprobs, num_top: int) -> TokenLogprobs:
    """The chosen token, at place 0, and those of the next `num_top` that are other tokens."""
    token_ids, logprobs, ranks = row
    top = range(1, 1 + min(num_top, len(token_ids) - 1))
    kept = [0, *(i for i in top if token_ids[i] != token_ids[0])]
    return TokenLogprobs(
        token_ids=[token_ids[i] for i in kept],
        logprobs=[logprobs[i] for i in kept],
        ranks=[ranks[i] for i in kept],
    )
