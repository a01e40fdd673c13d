"""The one question of the parity tests: do we and transformers give the same logits?"""

import torch
from tiny_models import SIZES, PagedRun

LENGTHS = (1, 9, 23, 4)


def prompts():
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randint(0, SIZES["vocab_size"], (n,), generator=generator).tolist() for n in LENGTHS
    ]


def in_one_step(lengths):
    return [list(lengths)]


def in_chunks(lengths, sizes=(3, 1, 6)):
    """Steps in which prompts advance by different amounts, single tokens among them."""
    left, steps = list(lengths), []
    while any(left):
        counts = [min(n, sizes[(len(steps) + i) % len(sizes)]) for i, n in enumerate(left)]
        left = [n - count for n, count in zip(left, counts, strict=True)]
        steps.append(counts)
    return steps


@torch.inference_mode()
def largest_difference(hf, backend, plan):
    """The largest absolute difference over all logits of all prompts, and their spread."""
    texts = prompts()
    run = PagedRun(hf, backend, texts)
    parts = [[] for _ in texts]
    for num_tokens in plan(LENGTHS):
        for i, logits in run.step(num_tokens).items():
            parts[i].append(logits)
    expected = [hf(torch.tensor([text])).logits[0] for text in texts]
    spread = torch.cat(expected).std().item()
    assert spread > 0.5, "flat logits would prove nothing"
    differences = [
        (torch.cat(ours) - theirs).abs() for ours, theirs in zip(parts, expected, strict=True)
    ]
    return torch.cat(differences).max().item()  # NaN stays NaN


def assert_parity(hf, backend, plan):
    difference = largest_difference(hf, backend, plan)
    assert difference < 1e-4, f"logits differ by {difference}"
