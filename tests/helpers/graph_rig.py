"""Two runners of one model on the same plans: one replays graphs, with a step in flight, the other
runs every step operator by operator, and in turn.
"""

import numpy as np
import torch
from tiny_models import BLOCK_SIZE, hf_model, our_model

from minivllm.attention.metadata import LayerKVCache
from minivllm.attention.triton import TritonAttention
from minivllm.messages import CachedRequestData, NewRequestData, SchedulerOutput
from minivllm.sample.sampler import Sampler
from minivllm.sampling_params import SamplingParams
from minivllm.worker.input_batch import InputBatch
from minivllm.worker.model_runner import ModelRunner
from minivllm.worker.recorded_graph import RecordedGraph

_SMALL = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
_HEAD_DIM = 16
_MAX_MODEL_LEN = 24
NUM_BLOCKS = 64


class SpySampler(Sampler):
    """The package's own, which keeps the logits it was given last."""

    def __init__(self):
        super().__init__()
        self.logits, self.num_calls = None, 0

    def __call__(self, logits, metadata):
        self.num_calls += 1
        self.logits = logits.clone()
        return super().__call__(logits, metadata)


class GraphRig:
    """Requests that are planned by hand; blocks come from a shuffled list, as they are needed.

    Attributes:
        captured: The runner with graphs.
        eager: The runner without.
        replays: Of each replay so far: the rows that took part, and all logits.
    """

    def __init__(self, max_num_seqs):
        hf = hf_model("qwen3", **_SMALL, head_dim=_HEAD_DIM)
        attention = TritonAttention()
        model = our_model(hf, attention)
        self.captured, self.eager = (
            ModelRunner(
                model,
                attention,
                SpySampler(),
                InputBatch(max_num_seqs, _MAX_MODEL_LEN, BLOCK_SIZE),
                torch.device("cpu"),
            )
            for _ in range(2)
        )
        shape = (NUM_BLOCKS, BLOCK_SIZE, 1, _HEAD_DIM)
        for runner in (self.captured, self.eager):
            pages = (torch.full(shape, torch.nan) for _ in range(2))
            runner.kv_caches = [LayerKVCache(*pages)]
        self.captured.capture_graphs(RecordedGraph)
        self.replays = []
        self._run = self.captured.graphs.run
        self.captured.graphs.run = self._watched_run
        self._free = np.random.default_rng(0).permutation(NUM_BLOCKS).tolist()
        self._new, self._gone = [], {"finished": [], "preempted": []}
        self._tables, self._num_computed, self._prompts, self._params = {}, {}, {}, {}
        self._under_way = None
        self.said = {}

    def _watched_run(self, batch, rows):
        logits = self._run(batch, rows)
        self.replays.append((rows.tolist(), logits.clone()))
        return logits

    def add(self, name, prompt, **params):
        """A request that starts with the next step."""
        self._prompts[name], self.said[name] = list(prompt), []
        self._params[name] = SamplingParams(**{"temperature": 0, **params})
        self._start(name)

    def _start(self, name):
        self._num_computed[name], self._tables[name] = 0, []
        self._new.append(name)

    def end(self, name):
        """A request that the next plan tells to be over."""
        self._leave(name, "finished")

    def preempt(self, name):
        """A request that loses its blocks with the next plan; `come_back` starts it again."""
        self._leave(name, "preempted")

    def come_back(self, name):
        """A preempted request that starts again with the next step, with all it said."""
        self._prompts[name] += self.said[name]
        self.said[name] = []
        self._start(name)

    def num_known(self, name):
        """How many tokens the request has, those it said included."""
        return len(self._prompts[name]) + len(self.said[name])

    def _leave(self, name, how):
        self._free += self._tables.pop(name)  # used again, with what stands in them
        self._gone[how].append(name)

    def step(self, **num_tokens):
        """Both run a plan; logits and tokens are compared, of the captured one a step later."""
        plan = self._plan(num_tokens)
        self.captured.sampler.num_calls, self.eager.sampler.logits = 0, None
        num_replays = len(self.replays)
        pending = self.captured.start(plan)
        expected = self.eager.execute_model(plan)
        if len(self.replays) > num_replays:
            self._compare_logits(list(expected.request_ids))
        self.read()
        self._under_way = pending, expected
        for name, token_id in zip(expected.request_ids, expected.sampled_token_ids, strict=True):
            self.said[name].append(token_id)

    def _compare_logits(self, names):
        batch = self.captured.input_batch
        rows = [batch.row_of[name] for name in names]
        _, logits = self.replays[-1]
        assert logits.isfinite().all(), "padding rows too"
        if names:
            torch.testing.assert_close(logits[rows], self.eager.sampler.logits, atol=1e-5, rtol=0)

    def read(self):
        """Compare the tokens of the step under way."""
        if self._under_way is None:
            return
        (pending, expected), self._under_way = self._under_way, None
        found = pending.result()
        tokens = [
            dict(zip(output.request_ids, output.sampled_token_ids, strict=True))
            for output in (found, expected)
        ]
        assert tokens[0] == tokens[1]
        assert found.logprobs.keys() == expected.logprobs.keys()

    def assert_same_pages(self):
        """Both have written the same slots, and nothing else."""
        for pages, expected in zip(
            self.captured.kv_caches[0], self.eager.kv_caches[0], strict=True
        ):
            torch.testing.assert_close(pages, expected, atol=1e-5, rtol=0, equal_nan=True)

    def _plan(self, num_tokens):
        blocks = {name: self._grow(name, count) for name, count in num_tokens.items()}
        new = [name for name in self._new if name in num_tokens]
        old = [name for name in num_tokens if name not in self._new]
        plan = SchedulerOutput(
            step=0,
            new_requests=[self._new_request(name, blocks[name]) for name in new],
            cached_requests=CachedRequestData(
                request_ids=old,
                num_computed_tokens=[self._num_computed[name] for name in old],
                new_block_ids=[blocks[name] for name in old],
            ),
            num_scheduled_tokens={name: num_tokens[name] for name in (*old, *new)},
            total_num_scheduled_tokens=sum(num_tokens.values()),
            preempted_request_ids=self._gone["preempted"],
            finished_request_ids=self._gone["finished"],
        )
        for name, count in num_tokens.items():
            self._num_computed[name] += count
        self._new = [name for name in self._new if name not in num_tokens]
        self._gone = {"finished": [], "preempted": []}
        return plan

    def _grow(self, name, count):
        needed = -(-(self._num_computed[name] + count) // BLOCK_SIZE)
        added = [self._free.pop() for _ in range(needed - len(self._tables[name]))]
        self._tables[name] += added
        return added

    def _new_request(self, name, block_ids):
        return NewRequestData(
            request_id=name,
            token_ids=tuple(self._prompts[name]),
            num_prompt_tokens=len(self._prompts[name]),
            sampling_params=self._params[name],
            seed=self._params[name].seed or 0,
            block_ids=block_ids,
            num_computed_tokens=0,
        )
