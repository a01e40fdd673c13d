"""Stage 1, generate: SmolLM2-135M-Instruct goes on with stories that our program has begun.

A model of this size writes good sentences and loses the thread after a few of them. So the program
in `stories/` writes the request and the first sentences, in which the hero and the thing stand,
and the model adds the rest, sixteen times each. The next stage throws most of it away.

The work is cut into shards; a shard is a file, and one that exists is not made again. Several
processes can share a GPU, each with every n-th shard:

    python -m tools.checkpoint generate --model smollm2 --first 0 --step 4 --minutes 7

Next file to read: `filter.py`.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from minivllm import LLM, SamplingParams
from tools.checkpoint.common import SEED, WORK, write_records
from tools.checkpoint.stories import Request, ask, random_request, tell

SHARDS = WORK / "generated"
REQUESTS_PER_SHARD = 256
SYSTEM = "You are a kind storyteller. You tell short, simple stories to small children."
MAX_OPENING_WORDS = 60
SAMPLING = SamplingParams(
    temperature=0.7, top_p=0.9, n=16, max_tokens=80, logprobs=0, skip_special_tokens=True
)


def sentences_of(text: str) -> list[str]:
    """A paragraph's sentences; a quote's closing mark belongs to the sentence that it ends."""
    return re.findall(r"\S.*?[.!?][\"”]?(?=\s+[A-Z\"“]|\s*$)", text, flags=re.DOTALL)


def opening_of(story: str, request: Request) -> str | None:
    """The story's first sentences, up to both words and at least two; `None` if that is long."""
    taken: list[str] = []
    for sentence in sentences_of(story.partition("\n\n")[0]):
        taken.append(sentence)
        text = " ".join(taken)
        if len(taken) > 1 and mentions(text, request) and text.count('"') % 2 == 0:
            return text if len(text.split()) <= MAX_OPENING_WORDS else None
    return None


def mentions(text: str, request: Request) -> bool:
    """Whether hero and thing both stand in `text`, as whole words."""
    return all(re.search(rf"\b{re.escape(w)}\b", text) for w in (request.hero, request.thing))


def requests_of_shard(shard: int) -> Iterator[tuple[Request, str, str]]:
    """Request, the words it is asked in, and the opening: the same for a shard at each call."""
    rng = random.Random(f"{SEED}/shard/{shard}")
    num_requests = 0
    while num_requests < REQUESTS_PER_SHARD:
        request = random_request(rng)
        question, story = ask(request, rng), tell(request, rng)
        if opening := opening_of(story, request):
            yield request, question, opening
            num_requests += 1


def make_shard(llm: LLM, shard: int, path: Path) -> None:
    """Have one shard's stories written, with each one's mean log-probability per token."""
    tokenizer = llm.get_tokenizer()
    entries = list(requests_of_shard(shard))
    prompts, params = [], []
    for index, (_, question, opening) in enumerate(entries):
        turns = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        prompts.append({"prompt_token_ids": tokenizer(text + opening).input_ids})
        seed = (
            shard * REQUESTS_PER_SHARD + index
        ) * SAMPLING.n  # its continuations: seed + 0, 1, ..
        params.append(replace(SAMPLING, seed=seed))
    outputs = llm.generate(prompts, params, use_tqdm=False)

    def record(index: int) -> dict[str, Any]:
        request, question, opening = entries[index]
        continuations = [
            {
                "text": completion.text,
                "logprob": round(
                    (completion.cumulative_logprob or 0) / len(completion.token_ids), 4
                ),
                "finished": completion.finish_reason == "stop",
            }
            for completion in outputs[index].outputs
        ]
        return {
            "request": asdict(request),
            "ask": question,
            "opening": opening,
            "continuations": continuations,
        }

    write_records(path, (record(index) for index in range(len(entries))))


def generate(model: str, first: int, step: int, minutes: float) -> None:
    """Make the shards `first`, `first + step`, ... that are missing, until the time is up."""
    deadline = time.monotonic() + 60 * minutes
    options: dict[str, Any] = {"max_model_len": 384, "max_num_batched_tokens": 8192}
    options |= {"max_num_seqs": 1024, "num_blocks": 400_000}
    # With blocks of one token a request's continuations share all of its prompt but the last token,
    # so fifteen of sixteen are never a prompt of their own.
    options |= {"block_size": 1}
    with LLM(model, device="cuda", dtype="bfloat16", **options) as llm:
        shard, longest = first, 0.0
        while time.monotonic() + longest < deadline:
            path = SHARDS / f"{shard:05d}.jsonl.gz"
            if not path.exists():
                start = time.monotonic()
                make_shard(llm, shard, path)
                seconds = time.monotonic() - start
                longest = max(longest, seconds)
                print(
                    f"shard {shard}: {REQUESTS_PER_SHARD} requests in {seconds:.1f} s", flush=True
                )
            shard += step
