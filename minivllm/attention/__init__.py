"""Attention over a paged KV cache: the interface, and the backends that implement it."""
