"""Triton kernels, one file per operation, in reading order.

    rms_norm.py         the smallest: a program per row    then silu_and_mul.py, cache_write.py
    qk_norm_rope.py     norm, rotation and cache write of a step's heads in one pass over qkv
    flash_attention.py  attention over keys that lie side by side    then paged_prefill.py
    paged_decode.py     one query per request, its keys split over programs; then merge_parts.py
    sample.py           a token per row of logits, in one pass
    few_rows_matmul.py  matrix products of a small batch

Each file holds the formula, `<op>_ref` in plain PyTorch, the kernel, and a launcher with the
reference's signature. Kernels take raw tensors; none knows a request, a layer or a backend.

Without a GPU the kernels run in Triton's interpreter: slow, and right for float32 and float16. The
interpreter must be chosen before triton is first imported, which is why it is chosen here. Where
triton came first, or in a program of its own choice, the environment is left as it is.
"""

import os
import sys

import torch

if "triton" not in sys.modules and not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
