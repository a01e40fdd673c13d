import pytest
import torch

from minivllm.layers.embedding import VocabEmbedding
from minivllm.parallel import TensorParallel


@pytest.fixture
def embedding():
    made = VocabEmbedding(50, 16, TensorParallel())
    made.weight.copy_(torch.randn(50, 16))
    return made


def test_each_id_gets_its_row(embedding):
    rows = embedding(torch.tensor([49, 0, 7, 7]))
    assert torch.equal(rows, torch.stack([embedding.weight[i] for i in (49, 0, 7, 7)]))


@pytest.mark.parametrize("num_rows", [1, 4, 12, 40, 200])
def test_logits_are_dot_products_with_every_row(embedding, num_rows):
    hidden_states = torch.randn(num_rows, 16)
    expected = (hidden_states.double()[:, None] * embedding.weight.double()).sum(-1)
    logits = embedding.logits(hidden_states)
    torch.testing.assert_close(logits.double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("num_rows", [1, 4, 12, 40, 200])
def test_each_row_of_logits_lies_together_in_memory(embedding, num_rows):
    assert embedding.logits(torch.randn(num_rows, 16)).is_contiguous()
