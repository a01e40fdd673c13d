"""From logits to token ids.

Reading order: `sampler.py`, `metadata.py`, `adjust.py`, `logits.py`, `random.py`, `logprobs.py`.
"""
