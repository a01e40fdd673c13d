"""Triton kernels, one file per operation. Empty so far: they come with the Triton chapters."""
