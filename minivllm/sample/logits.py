"""Which tokens may be drawn: min-p, top-k and top-p over a batch of logits.

Top-k and top-p look at the logits of a row in descending order, so one sort serves both; min-p
needs none.
Next file to read: `minivllm/counter_random.py`, how one of the tokens left is drawn.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


def apply_min_p(
    logits: Float[Tensor, "num_rows vocab_size"], min_ps: Float[Tensor, " num_rows"]
) -> Float[Tensor, "num_rows vocab_size"]:
    """The logits with -inf for each token less likely than its row's `min_p * max(probs)`.

    A ratio of probabilities is a difference of logits, so no softmax is needed.

    Args:
        logits: Already divided by the temperature; not changed.
        min_ps: From 0, which keeps all, to 1, which keeps the most likely token and its equals.
    """
    threshold = logits.amax(-1, keepdim=True) + min_ps[:, None].log()
    return logits.masked_fill(logits < threshold, float("-inf"))


def apply_top_k_top_p(
    logits: Float[Tensor, "num_rows vocab_size"],
    top_ks: Int[Tensor, " num_rows"],
    top_ps: Float[Tensor, " num_rows"],
) -> Float[Tensor, "num_rows vocab_size"]:
    """The logits with -inf for each token that top-k or, after it, top-p rules out.

    Top-k keeps every token that ties with the k-th. Top-p is over the probabilities that top-k
    leaves: the smallest set that reaches p, the lowest ids first among equals, at least one token.

    Args:
        logits: Already divided by the temperature; not changed.
        top_ks: 0 or less keeps all.
        top_ps: 1 or more keeps all.
    """
    vocab_size = logits.shape[-1]
    descending = sort_descending(logits)
    last = torch.where(top_ks > 0, top_ks.clamp(max=vocab_size), vocab_size) - 1
    kth_value = descending.gather(-1, last[:, None].long())
    num_top_k = (descending >= kth_value).sum(-1, keepdim=True)  # k, or more with ties
    num_top_k = num_top_k.clamp(min=1)  # NaN compares with nothing

    # k = 3, p = 0.8 of the 0.9 that top-k leaves: 0.72
    # probs [0.5, 0.3, 0.1, 0.1] -> sums before each [0, 0.5, 0.8, 0.9] -> 2 are below 0.72
    probs = descending.softmax(-1)
    sums = probs.cumsum(-1)
    mass = sums.gather(-1, num_top_k - 1) * top_ps[:, None]
    num_top_p = (sums - probs < mass).sum(-1, keepdim=True).clamp(min=1)
    # the minimum, because a p of almost 1 can round to more than the whole mass
    num_kept = torch.where(top_ps[:, None] < 1, num_top_k.minimum(num_top_p), num_top_k)

    threshold = descending.gather(-1, num_kept - 1)
    above = logits > threshold
    tied = logits == threshold
    num_tied_kept = num_kept - above.sum(-1, keepdim=True)
    kept = above | (tied & (tied.cumsum(-1) <= num_tied_kept))
    return logits.masked_fill(~kept, float("-inf"))


def sort_descending(
    logits: Float[Tensor, "num_rows vocab_size"],
) -> Float[Tensor, "num_rows vocab_size"]:
    """Each row's values, the largest first."""
    if logits.device.type == "cpu":  # NumPy sorts a vocabulary about 20 times faster than PyTorch
        return torch.from_numpy(np.sort(logits.numpy(), axis=-1)).flip(-1)
    return logits.sort(dim=-1, descending=True).values
