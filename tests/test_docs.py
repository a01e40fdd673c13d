"""The pages in docs/ are right: one_request.md is a real run, and what the others name exists."""

import re
from pathlib import Path

import pytest

from minivllm import LLM, SamplingParams

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, DOCS = ROOT / "minivllm", ROOT / "docs"
TEXT = (DOCS / "one_request.md").read_text()
LEFT_OUT = (DOCS / "left_out.md").read_text()
SOURCES = (DOCS / "sources.md").read_text()


@pytest.fixture(scope="module")
def run():
    """The plans, the sampled tokens and the texts of the run that the page describes."""
    llm = LLM(max_model_len=256, block_size=4, num_blocks=64, max_num_batched_tokens=8)
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
        "Once upon a time,",
        "Once upon a time, a small frog named Pip found a",
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
    assert texts == {"a": " a young knight", "b": " tent under the"}


def files_named_in(text, root):
    """Paths below `root` in backticks, or in quotes."""
    return {
        path
        for path in re.findall(r"[`\"]([a-z_/0-9]+(?:\.py|/))[`\":]", text)
        if (root / path.split("/")[0]).exists()
    }


def test_what_is_compared_with_vllm_is_there():
    rows = [line.split("|") for line in LEFT_OUT.splitlines() if line.startswith("| ")]
    ours = set().union(*(files_named_in(row[3], PACKAGE) for row in rows))
    assert len(ours) > 30
    assert [path for path in sorted(ours) if not (PACKAGE / path).exists()] == []


def test_every_cited_paper_is_among_the_sources():
    cited = set()
    for path in [*PACKAGE.rglob("*.py"), *(ROOT / "notebooks" / "source").glob("*.py")]:
        cited.update(re.findall(r"arXiv:(\d{4}\.\d{4,5})", path.read_text()))
    assert len(cited) > 10
    assert cited <= set(re.findall(r"arXiv:(\d{4}\.\d{4,5})", SOURCES))


def test_files_that_the_sources_name_are_there():
    named = files_named_in(SOURCES, PACKAGE)
    assert len(named) > 15
    assert [path for path in sorted(named) if not (PACKAGE / path).exists()] == []


@pytest.mark.parametrize("picture", ["one_request.svg", "trace.svg"])
def test_each_picture_is_shown_with_words_and_holds_no_path(picture):
    pages = (DOCS / "one_request.md").read_text() + (ROOT / "README.md").read_text()
    (words,) = re.findall(rf"!\[([^\]]+)\]\((?:docs/)?{re.escape(picture)}\)", pages)
    assert len(words) > 200
    svg = (DOCS / picture).read_text()
    assert svg.startswith("<?xml")
    assert str(ROOT) not in svg


def test_the_picture_of_a_request_names_files_that_exist():
    drawing = (ROOT / "tools" / "draw_one_request.py").read_text()
    named = set(re.findall(r"\"((?:\w+/)?\w+\.py)\"", drawing))
    assert len(named) > 8
    assert [path for path in sorted(named) if not (PACKAGE / path).exists()] == []
