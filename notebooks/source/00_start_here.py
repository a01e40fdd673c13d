# %% [markdown]
# # 00 · Start here
#
# **By the end** you will have shown that an engine serves four requests in 10 runs of a model
# instead of 33, and a function of your own will have taken part in it.
#
# | | |
# |---|---|
# | time | 25 minutes |
# | difficulty | easy |
# | you need | Python; you have used PyTorch before |
# | you write | one function in `exercises/ch00_start_here.py` |
# | in vLLM | `vllm/entrypoints/llm.py`, the class `LLM` |
#
# An **inference engine** is the program between a model's weights and the people who send it
# text. The weights say which word is likely next. The engine decides whose words to work on now,
# and where to keep what was already worked out.
#
# ## Set-up
#
# No download, no GPU. Run each cell with Shift-Enter, from the top. The imports need no reading.

# %%
import tempfile
import time
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Patch, Rectangle
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from minivllm import LLM, ConfigError, RequestError, SamplingParams
from minivllm.cli.doctor import check_packages, check_torch
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.scheduler import Scheduler
from minivllm.course.frames.ch00 import frames, in_words, recorded
from minivllm.course.grade import grade
from minivllm.course.notebook import (
    OKABE_ITO,
    check,
    explore,
    hints,
    predict,
    setup,
    show,
    status,
    use_mine,
)
from minivllm.course.registry import find, stub_of
from minivllm.course.render import render
from minivllm.hub import resolve_model
from minivllm.parts import Parts
from minivllm.trace import RequestPreempted, RequestScheduled

disable_progress_bar()
setup("ch00")

# %% [markdown]
# `minivllm doctor`, in a terminal, looks at your installation: each line is OK, TODO (optional) or
# WRONG, and says what to do. Here are its findings about packages and processors.

# %%
findings = [*check_packages(), *check_torch()]
print(dict(Counter(finding.verdict for finding in findings)))
for verdict, text in findings:
    if verdict != "OK" or text.startswith(("Python", "torch", "CPU", "GPU", "Triton")):
        print(f"{verdict:6}{text}")

# %% [markdown]
# ### A model tells a story
#
# `LLM()` loads the model that ships with the course: storyteller-7m, a small Qwen3 that tells
# stories for children. It does nothing else, but it does that by the same steps as a large one.
#
# Two settings make the engine's decisions easy to see: a step computes at most 24 tokens, and
# `trace=True` records each decision. A third keeps a later chapter (08) out of the way.
#
# A **token** is a piece of text that the model knows by number: a short word, or part of one.

# %%
llm = LLM(
    device="cpu",
    max_model_len=256,
    max_num_batched_tokens=24,
    enable_prefix_caching=False,
    trace=True,
)
greedy = SamplingParams(temperature=0, max_tokens=200)
wish = [{"role": "user", "content": "Tell me a story about a dog and a red kite."}]
answer = llm.chat(wish, greedy, use_tqdm=False)[0]
print(answer.output_text)

# %%
completion = answer.outputs[0]
print(f"{len(answer.prompt_token_ids)} tokens in, {len(completion.token_ids)} tokens out")
print("why it ended:", completion.finish_reason)
print(llm.get_tokenizer().decode(answer.prompt_token_ids))

# %% [markdown]
# More went in than you see in the request. The **chat template** wraps the words in markers that
# say who speaks. "stop" means that the model ended the story itself, with a token for "the end".
#
# The text needn't arrive in one piece. `stream` gives each piece as soon as it is known. Here a
# bar stands after each, so that you see the tokens.

# %%
sampled = SamplingParams(temperature=0.7, seed=3, max_tokens=40)
for piece in llm.stream("Once upon a time", sampled):
    print(piece, end="|")

# %% [markdown]
# Greedy (`temperature=0`) always takes the likeliest token. Above 0 the engine draws one, and
# `seed` makes the draw repeatable. Chapter 04 is about that.
#
# ## Picture: one at a time
#
# Four requests arrive together; each gets 8 new tokens. The plain way serves one after the other.
# A **step** is one run of the model, and it gives a request at most one new token.

# %%
prompts = [
    "Once upon a time",
    "Tom had a red kite. It was new, and it was the best kite in the whole town. "
    "Every day after breakfast he took it to the hill. But one morning",
    "It was a windy day.",
    "Once upon a time there was a small dragon who could not",
]
eight = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
llm.trace.events.clear()
for prompt in prompts:
    llm.generate(prompt, eight, use_tqdm=False)
one_by_one = recorded(llm.trace.events)

# %% tags=["nbval-check-output"]
tokenizer = llm.get_tokenizer()
lengths = [len(tokenizer(prompt).input_ids) for prompt in prompts]
print("prompt tokens:", lengths, "in all:", sum(lengths))
print("steps, one by one:", len(one_by_one))
assert len(one_by_one) == 33
assert [work.request for work in one_by_one[25]] == [4]


# %%
def draw_schedule(steps):
    """A grid of requests and steps; dark cells compute a prompt, light ones add a token."""
    num_requests = max(work.request for step in steps for work in step)
    figure, axes = plt.subplots(figsize=(8, 2.7), layout="constrained")
    for column, step in enumerate(steps):
        for work in step:
            color, ink = (OKABE_ITO[5], "white") if work.is_prefill else (OKABE_ITO[4], "black")
            corner = (column + 0.04, work.request - 0.9)
            axes.add_patch(Rectangle(corner, 0.92, 0.8, facecolor=color, edgecolor="black"))
            place = (column + 0.5, work.request - 0.5)
            axes.annotate(work.num_tokens, place, color=ink, ha="center", va="center")
    every = 1 if len(steps) <= 20 else 5
    shown = range(0 if every == 1 else 4, len(steps), every)
    axes.set_xticks([column + 0.5 for column in shown], [column + 1 for column in shown])
    axes.set_yticks([row + 0.5 for row in range(num_requests)], range(1, num_requests + 1))
    axes.set(xlim=(0, len(steps)), ylim=(num_requests, 0), xlabel="step", ylabel="request")
    handles = [
        Patch(facecolor=OKABE_ITO[5], edgecolor="black", label="prompt (dark)"),
        Patch(facecolor=OKABE_ITO[4], edgecolor="black", label="new token (light)"),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)
    return figure


show(
    draw_schedule(one_by_one),
    summary="Each number is how many tokens a step computes. Most of the grid is empty.",
    alt="One request at a time. " + in_words(one_by_one),
)

# %% [markdown]
# ## Where we are
#
# ```
#                   ┌──────────────── next step ────────────────┐
#                   ↓                                           │
# text → tokens → scheduler  →  model  →  logits  →  sampler → tokens → text
#          12        11     01-03 05 06 10             04        12      12
#                    ↕           ↕
#                  blocks  →  KV cache
#                  07 08       07 09
# ```
#
# This is the whole engine, and all of it is lit: you have run it. Served one by one, request 4
# sees its first token in step 26. And each step reads all the weights of the model, for at most one
# new token.
#
# From here on you take the engine apart. The numbers are chapters:
#
# | chapters | you build | then you see |
# |---|---|---|
# | 01, 02, 03 | layers, attention, the whole model | the same numbers as Hugging Face's |
# | 04 | sampling and the cache for old tokens | from n² computed tokens to n |
# | 05, 06 | flash attention, in PyTorch and in Triton | no table of all pairs |
# | 07, 08, 09 | a cache in blocks, shared and read by a kernel | hardly any memory is wasted |
# | 10 | CUDA graphs | hundreds of launches become one |
# | 11, 12 | the scheduler and the rest of the engine | no user waits behind a long prompt |
# | 13, 14 | several GPUs; then everything of yours together | a race against this engine |
#
# ## By hand: one token at a time
#
# The model gives one new token per run. To get the next one, the longer text goes in again. But
# what was worked out for the earlier tokens is kept, in the **KV cache**, so that only new tokens
# are computed. Take a prompt of 5 tokens and 3 new ones:
#
# | step | computed now | kept from before | new token |
# |---|---|---|---|
# | 1 | 5, the prompt | 0 | the 1st |
# | 2 | 1 | 5 | the 2nd |
# | 3 | 1 | 6 | the 3rd |
#
# The last token is never computed: nothing comes after it. So 5 + 3 - 1 = 7 tokens are computed.

# %%
steps = frames([5], num_new_tokens=3, token_budget=24, at_once=1)
computed_now = [work.num_tokens for step in steps for work in step]
kept_before = [sum(computed_now[:step]) for step in range(3)]
assert computed_now == [5, 1, 1]
assert kept_before == [0, 5, 6]
assert sum(computed_now) == 5 + 3 - 1

# %% [markdown]
# `frames` works a schedule out, with no model and no engine. You will see how well it does.
#
# ## Predict, then run
#
# Working through a prompt is called **prefill**. Adding one token after the other is **decode**.
# Now all four requests go in together. A step may work on all of them, as long as it computes no
# more than 24 tokens: that is the **token budget**. Choose an answer; each one opens. Then run on.

# %%
predict(
    "One by one it took 33 steps. All four together, at most 24 tokens a step: how many?",
    right="b",
    a=("8", "It would be 8 if all prompts fitted into step 1. 57 tokens don't fit into 24."),
    b=("10", "The last prompt is complete in step 3, and 7 more steps follow."),
    c=("33", "One step works on every request that runs; only one by one takes 33."),
)

# %%
llm.trace.events.clear()
outputs = llm.generate(prompts, eight, use_tqdm=False)
events = list(llm.trace.events)
together = recorded(events)
for prompt, output in zip(prompts, outputs, strict=True):
    print(f"...{prompt[-30:]}|{output.output_text!r}")

# %% tags=["nbval-check-output"]
print("steps, together:", len(together))
assert len(together) == 10

# %%
predict(
    "How many tokens does the engine compute for the four requests, over all steps?",
    right="c",
    a=("32", "These are the new tokens. The prompts are computed, too, once."),
    b=("57", "These are the prompts. New tokens are computed as well, to get the next ones."),
    c=("85", "57 of the prompts, and 7 of the 8 new ones for each of four requests."),
    d=("89", "57 + 4 · 8: but the last token of a request is never computed."),
)

# %% tags=["nbval-check-output"]
num_computed = sum(work.num_tokens for step in together for work in step)
print("computed:", num_computed, "tokens")
assert num_computed == sum(lengths) + 4 * (8 - 1) == 85

# %% [markdown]
# Now look at what the engine decided. A column is one run of the model.

# %%
show(
    draw_schedule(together),
    summary="Request 2 is cut in two, and the others do not wait for it.",
    alt="All together, at most 24 tokens a step. " + in_words(together),
)
assert [work.num_tokens for work in together[0]] == [4, 20]
assert [work.num_tokens for work in together[1]] == [1, 15, 6, 2]

# %% [markdown]
# - The long prompt did not fit into the 20 tokens that the first one left of the budget. The
#   engine cut it: a **chunk** of 20 now, the other 15 in the next step. Request 1 did not wait.
# - Prefill and decode share a step. The engine has no separate phases: it knows how many tokens a
#   request has, and how many of them are computed, and lets the second number catch up.
# - A request that ends makes room at once; the others go on. This is **continuous batching**.

# %%
predict(
    "The budget goes from 24 tokens a step to 1,000. How many steps does it take now?",
    right="a",
    a=("8", "All prompts fit into step 1, which gives the first tokens; 7 more follow."),
    b=("10, as before", "The budget did hold up request 4: its prompt took until step 3."),
    c=("1", "Each new token needs the one before it: 8 new tokens need 8 steps."),
)

# %% tags=["nbval-check-output"]
print({budget: len(frames(lengths, 8, budget, at_once=4)) for budget in (24, 1000)})
assert len(frames(lengths, 8, 1000, at_once=4)) == 8

# %% [markdown]
# ## Explore: budget and company
#
# The same four requests. Move the token budget, and choose how many may run at once. With a budget
# of 8, in which step does request 4 get its first token? And what could be bad about a large one?
#
# <details><summary>Answer</summary>In step 9. A large budget makes long steps: request 1, which
# only wants its next token, waits until everybody's prompt is computed.</details>


# %%
def draw(token_budget, at_once):
    return draw_schedule(frames(lengths, 8, token_budget, at_once))


def describe(token_budget, at_once):
    title = f"At most {token_budget} tokens a step and {at_once} requests at once. "
    return title + in_words(frames(lengths, 8, token_budget, at_once))


explore(draw, alt=describe, token_budget=range(8, 65, 8), at_once=[4, 2, 1])

# %% [markdown]
# ## Exercise: `blocks_needed`
#
# The KV cache is cut into **blocks** of equal size, like the pages of a notebook, and a request is
# given whole blocks. The last one may be partly empty. With blocks of 4 slots, 10 tokens need 3
# blocks, and 2 slots stay free.
#
# | argument | type | meaning |
# |---|---|---|
# | `num_tokens` | int, 0 or more | tokens to store |
# | `block_size` | int, 1 or more | slots in a block |
# | returns | int | blocks it takes |
#
# This one is for learning the way through an exercise. Once round:
#
# 1. Run the check cell below. It says NOT STARTED: that is expected.
# 2. Open `exercises/ch00_start_here.py`. Replace the line that raises by
#    `return num_tokens // block_size`, save, and run the cell again. **Red is expected.**
# 3. Read the report from the top: which check, which call, got, expected, the likely mistake.
# 4. Open a hint if you want one. Put the mistake right, save, run: PASSED.

# %% tags=["check"]
check("ch00.blocks_needed")

# %%
hints("ch00.blocks_needed")

# %% [markdown]
# Here is the red report of step 2. The course makes it in a folder of its own; your file stays as
# it is.

# %%
task = find("ch00.blocks_needed")
first_try = "return num_tokens // block_size"
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "ch00_start_here.py"
    stub = stub_of(task)
    file.write_text(stub.replace('raise ExerciseNotStarted("ch00.blocks_needed")', first_try))
    report = grade(task, Path(folder))
print(render(report))
assert not report.passed

# %% [markdown]
# `likely` compares your answers with those of well-known mistakes, and names the one that fits.
#
# Everything works in a terminal, too:
#
# | command | what it does |
# |---|---|
# | `minivllm check ch00.blocks_needed` | the same report; `ch00` checks the chapter |
# | `minivllm hint ch00.blocks_needed` | one more hint, of three |
# | `minivllm next` | which exercise is next, and in which file and line |
# | `minivllm status` | what has passed, and what is left |
# | `minivllm watch ch00` | checks again whenever you save |
#
# `minivllm solution` shows ours beside yours once you have passed, or tried three times.
#
# <details><summary>Help: I see "NOT STARTED" although I wrote something</summary>Save the file, and
# look whether the line with <code>raise</code> is gone.</details>

# %%
status()

# %% [markdown]
# ## Detective: one user gets no answer
#
# A planted mistake, as in each chapter. Later ones are graded; here you choose. `plan` says how
# many tokens of each request to compute in a step. It works for months. Then a user waits for
# ever, without any error.


# %%
def plan(requests, budget):
    tokens = {}
    for name, request in requests.items():
        missing = request["known"] - request["computed"]  # line A
        if missing > budget:
            continue  # line B
        tokens[name] = missing
        budget -= missing  # line C
    return tokens


def first_steps(plan, num_steps=4):
    requests = {name: {"known": known, "computed": 0} for name, known in (("Ann", 4), ("Bob", 35))}
    steps = []
    for _ in range(num_steps):
        steps.append(plan(requests, budget=24))
        for name, num_tokens in steps[-1].items():
            requests[name]["computed"] += num_tokens
            requests[name]["known"] += requests[name]["computed"] == requests[name]["known"]
    return steps


for step in first_steps(plan):
    print(step)
assert all("Bob" not in step for step in first_steps(plan, num_steps=100))

# %%
predict(
    "Bob's prompt has 35 tokens. Which line keeps him waiting?",
    right="b",
    a=("line A", "35 tokens known, none computed, 35 missing: that is right."),
    b=("line B", "It waits for a step with room for the whole prompt. Of 24 there is none."),
    c=("line C", "What one request takes, the next can't have: that is right."),
)


# %%
def fixed_plan(requests, budget):
    tokens = {}
    for name, request in requests.items():
        if num_tokens := min(request["known"] - request["computed"], budget):
            tokens[name] = num_tokens
            budget -= num_tokens
    return tokens


for step in first_steps(fixed_plan):
    print(step)
assert [step.get("Bob") for step in first_steps(fixed_plan)] == [20, 15, 1, 1]

# %% [markdown]
# ## Measure: steps, tokens, blocks
#
# `frames` predicts the steps; the trace has what really happened. The blocks are predicted by your
# function, once it has passed; until then the package's own stands in. Nothing is computed after
# the last token, so a request stores its prompt and all new tokens but one.


# %%
def package_blocks_needed(num_tokens, block_size):
    manager = KVCacheManager(BlockPool(1, enable_caching=False), block_size)
    return manager.num_blocks_for(num_tokens)


blocks_needed = use_mine("ch00.blocks_needed", otherwise=package_blocks_needed, ask=True)
stored = [length + 8 - 1 for length in lengths]
scheduled = [event for event in events if isinstance(event, RequestScheduled)]
rows = {
    "steps, one by one": (len(frames(lengths, 8, 24, at_once=1)), len(one_by_one)),
    "steps, together": (len(frames(lengths, 8, 24, at_once=4)), len(together)),
    "tokens computed": (sum(stored), sum(event.num_tokens for event in scheduled)),
    "blocks of 16 slots": (
        sum(blocks_needed(num_tokens, 16) for num_tokens in stored),
        sum(len(event.new_block_ids) for event in scheduled),
    ),
}

# %% tags=["nbval-check-output"]
print(f"{'':20}{'predicted':>10}{'measured':>10}{'ratio':>7}")
for name, (predicted, measured) in rows.items():
    print(f"{name:20}{predicted:10}{measured:10}{measured / predicted:7.2f}")
    assert predicted == measured
assert together == frames(lengths, 8, 24, at_once=4)

# %% [markdown]
# Fewer steps are not fewer sums: both ways compute the same 85 tokens. What is saved is the reading
# of the weights, once a step. That is most of a decode step's time on a GPU. On a CPU, or with
# long prompts, the gain is smaller.

# %%
assert sum(work.num_tokens for step in one_by_one for work in step) == 85


def serve_one_by_one(some_llm):
    for prompt in prompts:
        some_llm.generate(prompt, eight, use_tqdm=False)


def serve_together(some_llm):
    some_llm.generate(prompts, eight, use_tqdm=False)


if torch.cuda.is_available():
    with LLM(device="cuda", max_model_len=256, enable_prefix_caching=False) as gpu_llm:
        for serve in (serve_one_by_one, serve_together):
            serve(gpu_llm)  # once to warm up
            start = time.perf_counter()
            serve(gpu_llm)
            print(f"{serve.__name__}: {(time.perf_counter() - start) * 1e3:.0f} ms")
else:
    print("no GPU here: counted, not timed")

# %% [markdown]
# ## Break it
#
# One knob: `enable_chunked_prefill=False`, so that no prompt is cut. With a budget of 24 that is
# Bob's story again. The engine does not wait for it to happen.

# %%
try:
    LLM(device="cpu", max_model_len=256, max_num_batched_tokens=24, enable_chunked_prefill=False)
except ConfigError as error:
    print(error)
else:
    raise AssertionError("a prompt of 25 tokens would wait for ever")

# %% [markdown]
# A request that can never be served is refused at the door as well, with what to do about it.
# Those that are running never notice.

# %% tags=["nbval-check-output"]
try:
    llm.generate("word " * 300, eight, use_tqdm=False)
except RequestError as error:
    print(error)
else:
    raise AssertionError("a prompt longer than the context must be refused")

# %% [markdown]
# ## Compare
#
# Does company change an answer? Each text, served together, is compared with Hugging Face's
# transformers, which gets the same weights and one prompt at a time. And `blocks_needed` is
# compared with the package's own.

# %% tags=["nbval-check-output"]
reference = AutoModelForCausalLM.from_pretrained(
    resolve_model("storyteller-7m"), dtype=torch.float32
)
print(f"{sum(weight.numel() for weight in reference.parameters()):,} weights")
for prompt, output in zip(prompts, outputs, strict=True):
    token_ids = tokenizer(prompt, return_tensors="pt").input_ids
    expected = reference.generate(token_ids, do_sample=False, min_new_tokens=8, max_new_tokens=8)[
        0, token_ids.shape[1] :
    ]
    assert expected.tolist() == list(output.outputs[0].token_ids)
for block_size in (1, 4, 16):
    for num_tokens in range(100):
        expected = package_blocks_needed(num_tokens, block_size)
        assert blocks_needed(num_tokens, block_size) == expected
print("4 texts of 8 tokens and 300 numbers of blocks: all equal")

# %% [markdown]
# ## Plug in
#
# `Parts` puts a part of yours into the real engine. Here the engine's scheduler asks your function
# how many blocks a request needs. Your function also says how large the cache must be: enough for
# all four. A second engine gets one block less.


# %%
num_calls = Counter()


def my_scheduler(config, manager, trace=None):
    def count_and_answer(num_tokens):
        num_calls["blocks_needed"] += 1
        return blocks_needed(num_tokens, manager.block_size)

    manager.num_blocks_for = count_and_answer
    return Scheduler(config, manager, trace=trace)


num_blocks = sum(blocks_needed(num_tokens, 16) for num_tokens in stored)
settings = {
    "device": "cpu",
    "max_model_len": 64,
    "max_num_batched_tokens": 24,
    "enable_prefix_caching": False,
    "trace": True,
    "parts": Parts(scheduler=my_scheduler),
}
for size in (num_blocks, num_blocks - 1):
    with LLM(num_blocks=size, **settings) as my_llm:
        texts = [out.output_text for out in my_llm.generate(prompts, eight, use_tqdm=False)]
        preempted = sum(isinstance(event, RequestPreempted) for event in my_llm.trace.events)
        num_steps = len(recorded(my_llm.trace.events))
    print(f"{size} blocks: {num_steps} steps, requests set back: {preempted}, texts: the same")
    assert texts == [output.output_text for output in outputs]
    assert preempted == num_blocks - size
llm.shutdown()
whose = "the package's" if blocks_needed is package_blocks_needed else "your own"
print(f"Milestone: {whose} blocks_needed ran {num_calls.total()} times in a real engine.")

# %% [markdown]
# One block less, and a request had to give its blocks back and start over: it was **preempted**. It
# costs a step, and changes no text.
#
# ## Recap
#
# - An engine turns many requests into a row of steps; each step is one run of the model.
# - Prefill computes a prompt, decode adds a token, and both share a step.
# - The KV cache keeps what was computed, so that no token is computed twice.
# - A token budget limits a step; a long prompt is cut into chunks.
# - What can't be served is refused before it is queued.
#
# **Questions**
#
# <details><summary>Why does the last token of an answer never enter the model?</summary>The model
# would say what comes after it, and nobody asks.</details>
# <details><summary>The budget is 24 and four requests decode. How full is a step?</summary>Four
# tokens, one for each request. Twenty places are free for the prompt of a newcomer.</details>
# <details><summary>Why does a larger batch hardly slow a GPU's decode step?</summary>The weights
# are read once for the whole batch, and reading them takes most of the time.</details>
# <details><summary>With blocks of 16, how many slots can a request waste at most?</summary>15: all
# but one of its last block.</details>
#
# **New words**: inference engine, token, chat template, greedy, step, KV cache, prefill, decode,
# token budget, chunk, continuous batching, block, preempted.
#
# ## The real thing
#
# vLLM has the same front door (`LLM` in `vllm/entrypoints/llm.py`) and the same rule (`Scheduler`
# in `vllm/v1/core/sched/scheduler.py`). It adds a server, many more models, several machines, and
# images and sound as input. Speculative decoding and LoRA are left out here, too.
#
# - Yu et al., *Orca: A Distributed Serving System for Transformer-Based Generative Models*, OSDI
#   2022: a new batch for each step.
# - Kwon et al., *Efficient Memory Management for Large Language Model Serving with PagedAttention*,
#   arXiv:2309.06180: the KV cache in blocks.
# - Agrawal et al., *Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve*,
#   arXiv:2403.02310: chunks of prompts beside decodes.
#
# Next: chapter 01, the layers that the model is made of. `minivllm next` knows the way.
