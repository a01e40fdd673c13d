"""From logits to token ids.

Reading order: `sampler.py`, `metadata.py`, `adjust.py`, `logits.py`,
`minivllm/counter_random.py`, `logprobs.py`.
"""
