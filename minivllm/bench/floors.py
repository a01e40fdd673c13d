"""Floors: the least time in which a piece of work can be done, by the speeds of its machine.

A step has to read some bytes and to do some arithmetic. Each has a speed that no program on that
machine passes by much, measured in the same run (`ceilings.py`): the larger of the two times is the
step's floor. What stands above it is what a better program could still win.

    decode step     reads all weights and the cache of every request; its arithmetic hides behind
    prompt          multiplies every weight with every token; its bytes hide behind

Next file to read: `ceilings.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minivllm.bench.report import Spread
from minivllm.models.hf_config import ModelArchitecture


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """The speeds of a machine.

    Attributes:
        copy: Bytes per second of a large copy, those read and those written.
        read: Bytes per second of a large read.
        matmul: Operations per second of a large matrix product.
    """

    copy: float
    read: float
    matmul: float

    def as_settings(self) -> dict[str, str]:
        """The speeds as text, for a report."""
        return {
            "copy": f"{self.copy / 1e9:,.0f} GB/s",
            "read": f"{self.read / 1e9:,.0f} GB/s",
            "matrix product": f"{self.matmul / 1e12:,.0f} TFLOP/s",
        }


@dataclass(frozen=True)
class Chunk:
    """Tokens of a prompt that a step computes, after those that are in the cache already."""

    num_tokens: int
    num_cached: int = 0


@dataclass(frozen=True, kw_only=True)
class ModelWork:
    """What a model has to read and to compute.

    Norms, biases and activations are left out: they come to less than a hundredth.

    Attributes:
        weight_bytes: Read by each step, the output head included.
        token_bytes: Of the KV cache, for each token in it.
        token_flops: For each token of a prompt, attention and output head excluded.
        pair_flops: For each pair of a query and a key that it sees, over all layers and heads.
    """

    weight_bytes: int
    token_bytes: int
    token_flops: int
    pair_flops: int

    @classmethod
    def of(cls, arch: ModelArchitecture, element_size: int) -> ModelWork:
        """Of a model whose weights and cache have elements of so many bytes."""
        q_size, kv_size = (n * arch.head_dim for n in (arch.num_heads, arch.num_kv_heads))
        qkv = arch.hidden_size * (q_size + 2 * kv_size)
        o, mlp = q_size * arch.hidden_size, 3 * arch.hidden_size * arch.intermediate_size
        weights = arch.num_layers * (qkv + o + mlp)
        head = arch.vocab_size * arch.hidden_size
        return cls(
            weight_bytes=element_size * (weights + head),
            token_bytes=element_size * 2 * arch.num_layers * kv_size,
            token_flops=2 * weights,
            pair_flops=4 * arch.num_layers * q_size,
        )

    def chunk_flops(self, chunk: Chunk) -> float:
        """Operations of a causal pass over a chunk: of its own pairs a query sees half."""
        pairs = chunk.num_tokens * chunk.num_cached + chunk.num_tokens**2 / 2
        return chunk.num_tokens * self.token_flops + pairs * self.pair_flops

    def step_seconds(
        self, ceilings: Ceilings, chunks: Sequence[Chunk] = (), contexts: Sequence[float] = ()
    ) -> float:
        """The floor of a step.

        Args:
            ceilings: The machine's.
            chunks: Of prompts.
            contexts: Cached tokens of each request that decodes.
        """
        num_read = sum(contexts) + sum(chunk.num_cached for chunk in chunks)
        num_bytes = self.weight_bytes + self.token_bytes * num_read
        flops = sum(map(self.chunk_flops, chunks))
        return max(num_bytes / ceilings.copy, flops / ceilings.matmul)


def against_floor(seconds: Sequence[float], floor: float) -> dict[str, float | Spread]:
    """Two columns of a table: the floor, and how many times that the measured seconds are."""
    return {"floor, ms": 1e3 * floor, "x floor": Spread.of(seconds, scale=1 / floor)}


def workload_seconds(
    work: ModelWork, ceilings: Ceilings, input_lens: Sequence[int], output_lens: Sequence[int]
) -> float:
    """The floor of a batch that is generated offline: its prompts, then its decode steps.

    Each step of decoding reads the weights once for all, and there are as many as the longest
    output needs. A request's i-th step reads its prompt and i tokens.
    """
    flops = sum(work.chunk_flops(Chunk(length)) for length in input_lens)
    num_read = sum(
        (num_out - 1) * num_in + num_out * (num_out - 1) / 2
        for num_in, num_out in zip(input_lens, output_lens, strict=True)
    )
    num_bytes = work.weight_bytes * (max(output_lens) - 1) + work.token_bytes * num_read
    return num_bytes / ceilings.copy + flops / ceilings.matmul
