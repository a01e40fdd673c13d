"""Steps for graphs, and the one check that matters: a replay equals running the step again."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.models.hf_config import parse_config
from minivllm.models.qwen3 import Qwen3ForCausalLM
from minivllm.parallel import TensorParallel

SIZE = 6


@dataclass
class Inputs:
    """What every step may read and write: two matrices, and a permutation."""

    x: Tensor
    y: Tensor
    indices: Tensor

    @classmethod
    def random(cls, seed, device="cpu"):
        rng = torch.Generator().manual_seed(seed)
        x, y = (torch.randn(SIZE, SIZE, generator=rng) for _ in range(2))
        return cls(x.to(device), y.to(device), torch.randperm(SIZE, generator=rng).to(device))

    def tensors(self):
        return (self.x, self.y, self.indices)

    def take(self, other):
        for mine, theirs in zip(self.tensors(), other.tensors(), strict=True):
            mine.copy_(theirs)


def in_place(x, y, i):
    x.add_(y).mul_(0.5)
    x[2] = y[0]
    x[:, 1] = 3.0
    return x  # an output that is an input


def views(x, y, i):
    turned = x.t()
    turned[1:3].add_(1)  # reaches x
    copied = turned.reshape(-1)  # not a view: the strides do not allow it
    copied.mul_(2)
    viewed = y.reshape(-1)  # a view
    viewed.neg_()
    return copied, viewed.view(SIZE, SIZE)[1:, ::2], turned


def turned_in_place(x, y, i):
    z = x * 2
    same = z.detach()
    z.t_()
    z.unsqueeze_(0)
    same += 1
    return z + y


def several_outputs(x, y, i):
    values, places = x.topk(2, dim=1)
    mean, variance = torch.var_mean(y, dim=0)
    first, second = (x + y).chunk(2)
    return values, places, {"stats": (mean, variance)}, first, second


def into_out(x, y, i):
    out = torch.empty_like(x)
    torch.add(x, y, out=out)
    torch.mul(out, 2, out=y)
    return out


def scatter(x, y, i):
    cache = torch.zeros(2 * SIZE, SIZE, device=x.device)
    cache.index_copy_(0, i, x)
    cache[i + SIZE] = y
    y.scatter_(1, i[None, :1].expand(SIZE, 1), 7.0)
    return cache, cache[i], cache.index_select(0, i)


def masks(x, y, i):
    z = x.clone()
    z[z > 0] = 0  # a fill, not an indexing
    is_before = torch.arange(SIZE, device=x.device) < i[:, None]
    return torch.where(is_before, z, -1.0), y.masked_fill(is_before, 0)


def attention(x, y, i):
    q, k = x.view(1, 1, SIZE, SIZE), y.view(1, 1, SIZE, SIZE)
    return F.scaled_dot_product_attention(q, k, k, is_causal=True)


def padded_write(x, y, i):
    out = torch.empty_like(x)
    out[:4] = x[:4]
    out[4:] = 0
    return out


def counted(x, y, i):
    result = x
    for _ in range(3):
        result = result + y
    return result.sum(), i.sum()


def no_output(x, y, i):
    y.copy_(x[i])


STEPS: dict[str, Callable] = {
    "arithmetic": lambda x, y, i: (x * y - 1) / (x.square() + 2),
    "in_place": in_place,
    "views": views,
    "turned_in_place": turned_in_place,
    "several_outputs": several_outputs,
    "into_out": into_out,
    "scatter": scatter,
    "masks": masks,
    "padded_write": padded_write,
    "counted": counted,
    "embedding": lambda x, y, i: F.embedding(i, x),
    "linear": lambda x, y, i: F.linear(x, y, x[0]) @ y.t(),
    "einsum": lambda x, y, i: torch.einsum("ab,bc->ca", x, y),
    "softmax": lambda x, y, i: (x.softmax(-1), y.log_softmax(0), x.argmax(-1), x.logsumexp(1)),
    "attention": attention,
    "normalised": lambda x, y, i: F.rms_norm(x, (SIZE,), y[0]).to(torch.float16).float(),
    "sorted": lambda x, y, i: (*x.sort(dim=-1, descending=True), y.cumsum(0)),
    "an_input": lambda x, y, i: (x, y[1], x.sum()),
    "no_output": no_output,
}


def leaves(tree):
    """The tensors of nested tuples and dicts."""
    if isinstance(tree, Tensor):
        return [tree]
    values = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, tuple) else ()
    return [leaf for value in values for leaf in leaves(value)]


def assert_same(found, expected):
    for one, other in zip(leaves(found), leaves(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def check_replays(graph, step, device="cpu"):
    """New inputs in the old tensors: the old outputs are those of a run on tensors of its own."""
    static = Inputs.random(0, device)
    outputs = graph.capture(lambda: step(*static.tensors()))
    addresses = [leaf.data_ptr() for leaf in leaves(outputs)]
    for seed in range(1, 4):
        fresh = Inputs.random(seed, device)
        static.take(fresh)
        expected = step(*fresh.tensors())
        graph.replay()
        assert_same(outputs, expected)
        assert_same(static.tensors(), fresh.tensors())  # what the step wrote into its inputs
    assert [leaf.data_ptr() for leaf in leaves(outputs)] == addresses


class DenseAttention(AttentionBackend):
    """Each row attends to all slots of the cache below its `seq_lens`; no pages."""

    def write(self, k, v, kv_cache, slot_mapping):
        for pages, new in zip(kv_cache, (k, v), strict=True):
            pages.flatten(0, 1).index_copy_(0, slot_mapping, new)

    def attend(self, q, kv_cache, metadata, scale, sliding_window):
        group_size = q.shape[1] // kv_cache.key.shape[2]
        k, v = (pages.flatten(0, 1).repeat_interleave(group_size, 1) for pages in kv_cache)
        scores = torch.einsum("qhd,khd->hqk", q, k) * scale
        is_seen = torch.arange(len(k), device=q.device) < metadata.seq_lens[:, None]
        return torch.einsum("hqk,khd->qhd", scores.where(is_seen, -torch.inf).softmax(-1), v)


class TinyDecoder:
    """A random Qwen3 of two layers and the tensors of a decode step of three rows.

    The last slot is scratch: what a capture writes goes there, where no row looks.
    """

    NUM_ROWS, NUM_SLOTS = 3, 48

    def __init__(self, device="cpu"):
        config = {
            "architectures": ["Qwen3ForCausalLM"], "vocab_size": 61, "hidden_size": 32,
            "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64,
        }  # fmt: skip
        self.model = Qwen3ForCausalLM(parse_config(config), DenseAttention(), TensorParallel())
        self.model.to(device)
        rng = torch.Generator().manual_seed(0)
        for parameter in self.model.parameters():
            parameter.data.copy_(torch.randn(parameter.shape, generator=rng) * 0.2)
        self.input_ids, self.positions, self.slots = (
            torch.zeros(self.NUM_ROWS, dtype=torch.int64, device=device) for _ in range(3)
        )
        self.slots.fill_(self.NUM_SLOTS - 1)
        self.seq_lens = torch.ones(self.NUM_ROWS, dtype=torch.int32, device=device)
        self.kv_caches = [
            LayerKVCache(*torch.zeros(2, self.NUM_SLOTS // 4, 4, 2, 8, device=device).unbind())
            for _ in range(2)
        ]

    def written_slots(self):
        """Both halves of both layers' caches, without the scratch."""
        return tuple(pages.flatten(0, 1)[:-1] for pair in self.kv_caches for pages in pair)

    def fill(self, num_steps):
        """The inputs of the step after `num_steps`: three slots further on each time."""
        rows = torch.arange(self.NUM_ROWS)
        self.input_ids.copy_((17 * num_steps + 5 * rows) % 61)
        self.positions.fill_(num_steps)
        self.slots.copy_(num_steps * self.NUM_ROWS + rows)
        self.seq_lens.fill_((num_steps + 1) * self.NUM_ROWS)

    def step(self):
        """The logits of each row."""
        metadata = AttentionMetadata(
            query_start_loc=self.seq_lens, block_table=self.seq_lens, seq_lens=self.seq_lens,
            slot_mapping=self.slots, query_lens_host=None, seq_lens_host=None,
        )  # fmt: skip
        hidden = self.model(self.input_ids, self.positions, self.kv_caches, metadata)
        return self.model.compute_logits(hidden)


def check_decode_steps(graph, device="cpu"):
    """Ten steps of a model by replay, and by a twin that runs them: same logits, same cache."""
    replayed, eager = TinyDecoder(device), TinyDecoder(device)
    logits = graph.capture(replayed.step)
    assert not any(slots.any() for slots in replayed.written_slots()), "only scratch is written"
    for num_steps in range(10):
        replayed.fill(num_steps)
        eager.fill(num_steps)
        graph.replay()
        assert_same(logits, eager.step())
    assert_same(replayed.written_slots(), eager.written_slots())
