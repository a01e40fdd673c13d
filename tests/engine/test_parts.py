"""Each exchangeable part: a user's own takes the place of the package's, inside the real engine."""

from dataclasses import replace

import pytest
import torch
from checkpoints import greedy_reference

from minivllm import LLM, Parts, SamplingParams
from minivllm.attention.reference import ReferenceAttention
from minivllm.core.block_pool import BlockPool
from minivllm.core.scheduler import Scheduler
from minivllm.models.qwen3 import Qwen3ForCausalLM
from minivllm.sample.sampler import Sampler

GREEDY = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
PROMPT = [5, 6, 7, 8, 9]


@pytest.fixture
def folder(tiny_checkpoint):
    return tiny_checkpoint("qwen3")


def generate(folder, parts, prompts=(PROMPT,)):
    llm = LLM(str(folder), device="cpu", block_size=4, num_blocks=32, max_model_len=64, parts=parts)
    outputs = llm.generate(list(prompts), GREEDY, use_tqdm=False)
    return [list(output.outputs[0].token_ids) for output in outputs]


def test_own_attention_serves_every_layer(folder):
    calls = []

    class Own(ReferenceAttention):
        def attend(self, q, kv_cache, metadata, scale, sliding_window):
            calls.append(len(q))
            return super().attend(q, kv_cache, metadata, scale, sliding_window)

    assert generate(folder, Parts(attention=Own)) == [greedy_reference(folder, PROMPT, 4)]
    assert calls == [5] * 3 + [1] * 9  # 3 layers: the prompt, then 3 more tokens


def test_own_sampler_chooses_the_tokens(folder):
    class LeastLikely(Sampler):
        def __call__(self, logits, metadata):
            return super().__call__(-logits, metadata)

    own = generate(folder, Parts(sampler=LeastLikely))
    assert own != [greedy_reference(folder, PROMPT, 4)]


def test_own_model_takes_the_place_of_the_registered_one(folder):
    class Shifted(Qwen3ForCausalLM):
        def compute_logits(self, hidden_states):
            return torch.roll(super().compute_logits(hidden_states), 1, dims=-1)

    first = generate(folder, Parts(model=Shifted))[0][0]
    assert first == greedy_reference(folder, PROMPT, 1)[0] + 1


def test_own_block_pool_hands_out_the_blocks(folder):
    taken = []

    class Own(BlockPool):
        def allocate(self, num_blocks):
            taken.append(num_blocks)
            return super().allocate(num_blocks)

    assert generate(folder, Parts(block_pool=Own)) == [greedy_reference(folder, PROMPT, 4)]
    assert taken == [2]  # 5 tokens, then up to 8, in blocks of 4


def test_own_scheduler_makes_the_plans(folder):
    sizes = []

    class Own(Scheduler):
        def _admit_waiting(self, plan):
            if not self.running and not plan.started:
                self.config = replace(self.config, max_num_seqs=1)
                super()._admit_waiting(plan)

        def schedule(self):
            output = super().schedule()
            sizes.append(len(output.num_scheduled_tokens))
            return output

    prompts = [PROMPT, [1, 2, 3]]
    expected = [greedy_reference(folder, prompt, 4) for prompt in prompts]
    assert generate(folder, Parts(scheduler=Own), prompts) == expected
    assert sizes == [1] * 8
