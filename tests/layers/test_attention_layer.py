import numpy as np
import torch

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.layers.attention import PagedAttention


class Recorder(AttentionBackend):
    def __init__(self):
        self.calls = []

    def write(self, k, v, kv_cache, slot_mapping):
        self.calls.append(("write", k, v, kv_cache, slot_mapping))

    def attend(self, q, kv_cache, metadata, scale, sliding_window):
        self.calls.append(("attend", q, kv_cache, metadata, scale, sliding_window))
        return q + 1


def assert_same_objects(given, expected):
    assert all(a is b for a, b in zip(given, expected, strict=True))


def test_keys_and_values_are_written_before_the_queries_read():
    backend = Recorder()
    q, k, v = torch.randn(3, 4, 16), torch.randn(3, 2, 16), torch.randn(3, 2, 16)
    kv_cache = LayerKVCache(torch.zeros(5, 4, 2, 16), torch.zeros(5, 4, 2, 16))
    metadata = AttentionMetadata(
        query_start_loc=torch.tensor([0, 3], dtype=torch.int32),
        seq_lens=torch.tensor([3], dtype=torch.int32),
        block_table=torch.tensor([[2]], dtype=torch.int32),
        slot_mapping=torch.tensor([8, 9, 10]),
        query_lens_host=np.array([3], dtype=np.int32),
        seq_lens_host=np.array([3], dtype=np.int32),
    )
    out = PagedAttention(backend, head_dim=16, sliding_window=7)(q, k, v, kv_cache, metadata)
    assert torch.equal(out, q + 1)
    write, attend = backend.calls
    assert write[0] == "write"
    assert_same_objects(write[1:], (k, v, kv_cache, metadata.slot_mapping))
    assert attend[0] == "attend"
    assert_same_objects(attend[1:4], (q, kv_cache, metadata))
    assert attend[4:] == (0.25, 7)  # 16 ** -0.5, and the layer's own window
