"""docs/one_request.md is a real run: the numbers in its tables are those of the engine."""

import re
from pathlib import Path

import pytest

from minivllm import LLM, SamplingParams

TEXT = (Path(__file__).resolve().parent.parent / "docs" / "one_request.md").read_text()


@pytest.fixture(scope="module")
def run():
    """The plans, the sampled tokens and the texts of the run that the page describes."""
    llm = LLM("smollm2", max_model_len=256, block_size=4, num_blocks=64, max_num_batched_tokens=8)
    executor, steps = llm.engine.core.executor, []
    execute_model = executor.execute_model

    def recording(plan):
        output = execute_model(plan)
        sampled = dict(zip(output.request_ids, output.sampled_token_ids, strict=True))
        steps.append((plan, sampled))
        return output

    executor.execute_model = recording
    greedy = SamplingParams(temperature=0, max_tokens=3)
    prompts = [
        "The capital of France is",
        "The capital of France is Paris. The capital of Italy is",
    ]
    for request_id, prompt in zip("ab", prompts, strict=True):
        llm.engine.add_request(request_id, prompt, greedy)
    texts = {}
    while llm.engine.has_unfinished_requests():
        texts.update({output.request_id: output.output_text for output in llm.engine.step()})
    return steps, texts


def described_steps():
    """One dict per step: request -> (computed before, scheduled, new blocks, sampled)."""
    steps = []
    for section in TEXT.split("## Step ")[1:]:
        rows = re.findall(r"^\| ([ab]) \| (\d+).*? \| (\d+) \| (.*?) \| (.*?) \|$", section, re.M)
        steps.append(
            {
                name: (int(computed), int(scheduled), blocks, sampled)
                for name, computed, scheduled, blocks, sampled in rows
            }
        )
    return steps


def test_the_tables_are_those_of_the_run(run):
    steps, texts = run
    found = []
    for plan, sampled in steps:
        cached = plan.cached_requests
        computed = dict(zip(cached.request_ids, cached.num_computed_tokens, strict=True))
        blocks = dict(zip(cached.request_ids, cached.new_block_ids, strict=True))
        computed.update({new.request_id: new.num_computed_tokens for new in plan.new_requests})
        blocks.update({new.request_id: new.block_ids for new in plan.new_requests})
        found.append(
            {
                name: (computed[name], num_tokens, list(blocks[name]), sampled.get(name))
                for name, num_tokens in plan.num_scheduled_tokens.items()
            }
        )
    described = [
        {
            name: (
                computed,
                scheduled,
                [int(number) for number in re.findall(r"\d+", blocks)],
                int(sampled.split("`")[1]) if "`" in sampled else None,
            )
            for name, (computed, scheduled, blocks, sampled) in step.items()
        }
        for step in described_steps()
    ]
    assert found == described
    assert texts == {"a": " Paris.\n", "b": " Rome. The"}
