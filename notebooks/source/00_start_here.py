# %% [markdown]
# # 00 · Start here
#
# **By the end** you will have run a real language model through the engine that you rebuild in
# this course, and you will have seen what the engine decides at each step.
#
# | | |
# |---|---|
# | time | 20 minutes |
# | difficulty | easy |
# | you need | Python; a little PyTorch helps later |
# | you write | one function in `exercises/ch00_start_here.py` |
# | in vLLM | `vllm/entrypoints/llm.py`, the class `LLM` |
#
# An **inference engine** is the program between a model's weights and the people who send it
# text. The weights say which word is likely next. The engine decides whose words to work on now,
# and where to keep what was already worked out.

# %% [markdown]
# ## Set-up
#
# The first run downloads a small model (93 MB) and converts it. Later runs find it on your disk.

# %%
import io

import matplotlib.pyplot as plt
import torch
from IPython.display import Image, display
from matplotlib.patches import Patch, Rectangle

from minivllm import LLM, RequestError, SamplingParams
from minivllm.course.exercises import check, load_exercise
from minivllm.trace import RequestScheduled

SEED = 0
print(f"PyTorch {torch.__version__.split('+')[0]}, running on the CPU, seed {SEED}")

# %% [markdown]
# ## Text in, text out
#
# SmolLM2 has 135 million weights: small, but a real model, trained to chat. `LLM` loads it. The
# two limits make the engine's decisions easy to see. At most 24 tokens are computed in a step,
# and `trace=True` keeps a record of every decision.
#
# A **token** is a piece of text that the model knows by number: a short word, or a part of one.

# %%
llm = LLM(
    "smollm2",
    device="cpu",
    max_model_len=256,
    max_num_batched_tokens=24,
    trace=True,
    seed=SEED,
)
greedy = SamplingParams(temperature=0, max_tokens=12)
question = [{"role": "user", "content": "What is the capital of France?"}]
answer = llm.chat(question, greedy, use_tqdm=False)[0]
print(answer.output_text)

# %% tags=["nbval-check-output"]
print(f"{len(answer.prompt_token_ids)} tokens in, {len(answer.outputs[0].token_ids)} tokens out")

# %% [markdown]
# More tokens went in than you typed. The model's **chat template** wraps your words in markers
# that say who speaks, and adds a line on who the assistant is.

# %%
print(llm.get_tokenizer().decode(answer.prompt_token_ids))

# %% [markdown]
# ## By hand: one token at a time
#
# The model gives one new token per run. To get the next one, the longer text goes in again. What
# was worked out for the earlier tokens is kept, in the **KV cache**, so that only new tokens are
# computed.
#
# Take a prompt of 5 tokens and 3 new ones:
#
# | step | computed now | kept from before | new token |
# |---|---|---|---|
# | 1 | 5, the prompt | 0 | the 1st |
# | 2 | 1 | 5 | the 2nd |
# | 3 | 1 | 6 | the 3rd |
#
# The last token is never computed: nothing comes after it. So 5 + 3 - 1 = 7 tokens are computed.

# %%
computed_now = [5, 1, 1]
kept_before = [sum(computed_now[:step]) for step in range(3)]
assert kept_before == [0, 5, 6]
assert sum(computed_now) == 5 + 3 - 1

# %% [markdown]
# ## Predict, then run
#
# Working through a prompt is called **prefill**; adding one token after the other is **decode**.
# The engine serves many requests at once. Here are four, of different lengths, each with 8 new
# tokens.

# %%
prompts = [
    "The capital of France is",
    "The first ten letters of the alphabet are A, B, C, D, E, F, G, and the next three letters "
    "after these are the letters",
    "Water boils at",
    "Once upon a time there was a small dragon who could not",
]
tokenizer = llm.get_tokenizer()
lengths = [len(tokenizer(prompt).input_ids) for prompt in prompts]

# %% tags=["nbval-check-output"]
print("prompt tokens:", lengths, "in all:", sum(lengths))

# %% [markdown]
# **Your guess.** Alone, each request takes 8 steps, and the one with the long prompt 9: that
# makes 33. All four together, with at most 24 tokens a step, how many steps will it be?
#
# - `"a"`: 8
# - `"b"`: 10
# - `"c"`: 33
#
# Put your choice into the next cell, then run on.

# %%
guess = None  # "a", "b" or "c"

# %%
llm.trace.events.clear()
params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
outputs = llm.generate(prompts, params, use_tqdm=False)
scheduled = [event for event in llm.trace.events if isinstance(event, RequestScheduled)]
num_steps = max(event.step for event in scheduled) - min(event.step for event in scheduled) + 1

for prompt, output in zip(prompts, outputs, strict=True):
    print(f"{prompt}|{output.output_text!r}")

# %% tags=["nbval-check-output"]
explanations = {
    None: "No guess this time.",
    "a": "Close: it would be 8 if all the prompts fitted into the first step. They don't.",
    "b": "Right: the last prompt is complete in step 3, and 7 more steps follow.",
    "c": "Too many: one step works on every request that runs.",
}
print(num_steps, "steps.", explanations[guess])

# %% [markdown]
# ## What the engine decided
#
# The figure shows each step as a column and each request as a row. The number is how many tokens
# of the request were computed in that step.


# %%
def draw_schedule(events, prompt_lengths):
    """A grid of requests and steps; dark cells are prefill, light ones decode."""
    steps = sorted({event.step for event in events})
    names = list(dict.fromkeys(event.request_id for event in events))
    figure, axes = plt.subplots(figsize=(8, 2.6), layout="constrained")
    for event in events:
        row, column = names.index(event.request_id), steps.index(event.step)
        is_prefill = event.num_computed_tokens < prompt_lengths[row]
        color, ink = ("#0072B2", "white") if is_prefill else ("#F0E442", "black")
        box = Rectangle((column + 0.05, row + 0.08), 0.9, 0.84, facecolor=color, edgecolor="black")
        axes.add_patch(box)
        axes.text(column + 0.5, row + 0.5, event.num_tokens, color=ink, ha="center", va="center")
    axes.set(xlim=(0, len(steps)), ylim=(len(names), 0), xlabel="step", ylabel="request")
    axes.set_xticks([i + 0.5 for i in range(len(steps))], range(1, len(steps) + 1))
    axes.set_yticks([i + 0.5 for i in range(len(names))], range(1, len(names) + 1))
    axes.legend(
        handles=[
            Patch(facecolor="#0072B2", edgecolor="black", label="prefill"),
            Patch(facecolor="#F0E442", edgecolor="black", label="decode"),
        ],
        loc="upper left",
        bbox_to_anchor=(1, 1),
        frameon=False,
    )
    return figure


def show(figure, alt):
    """Show a figure with a text for those who can't see it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    plt.close(figure)
    display(Image(buffer.getvalue(), alt=alt, format="png"))
    print(alt)


show(
    draw_schedule(scheduled, lengths),
    alt="A grid of four requests and ten steps. Step 1 computes the 5 prompt tokens of request 1 "
    "and 19 of the 32 of request 2. Step 2 decodes request 1, finishes the prompts of requests 2 "
    "and 3, and begins that of request 4. From step 4 on each request decodes one token a step; "
    "request 1 is done after step 8, request 4 after step 10.",
)

# %% [markdown]
# Read a column from top to bottom: it is one run of the model. Two things are worth a look.
#
# - The long prompt did not fit into the 19 tokens that the first one left of the budget. The
#   engine cut it: a **chunk** of 19 now, the other 13 in the next step. Request 1 did not wait.
# - Prefill and decode share a step. The engine has no separate phases: it knows how many tokens
#   each request has and how many of them are computed, and lets the second number catch up.
#
# Each request computes its prompt and all new tokens but the last:

# %% tags=["nbval-check-output"]
for output, length in zip(outputs, lengths, strict=True):
    computed = sum(e.num_tokens for e in scheduled if e.request_id == output.request_id)
    assert computed == length + 8 - 1
print("computed in all:", sum(event.num_tokens for event in scheduled), "tokens")

# %% [markdown]
# ## Break it
#
# What can never work is refused at the door, with what to do about it. Requests that are already
# running never notice.

# %% tags=["nbval-check-output"]
try:
    llm.generate("word " * 300, greedy, use_tqdm=False)
except RequestError as error:
    print(error)
else:
    raise AssertionError("a prompt longer than the context must be refused")

# %% [markdown]
# ## Exercise: `blocks_needed`
#
# The KV cache is cut into **blocks** of equal size, like pages of a notebook, and a request is
# given whole blocks. The last one may be partly empty. With blocks of 4 slots, 10 tokens need 3
# blocks, and 2 slots stay free.
#
# | argument | type | meaning |
# |---|---|---|
# | `num_tokens` | int, 0 or more | tokens to store |
# | `block_size` | int, 1 or more | slots in a block |
# | returns | int | blocks it takes |
#
# Open `exercises/ch00_start_here.py`, replace the line that raises, save, and run the next cell
# again. As it ships it says NOT STARTED: that is expected.

# %% tags=["check"]
cases = [
    ((0, 4), 0),
    ((1, 4), 1),
    ((4, 4), 1),
    ((5, 4), 2),
    ((10, 4), 3),
    ((2**60 + 1, 2), 2**59 + 1),
]
print(check(load_exercise("ch00_start_here").blocks_needed, cases))

# %% [markdown]
# <details><summary>Hint 1: what to think about</summary>
#
# How many blocks are full? When is there one more?
#
# </details>
# <details><summary>Hint 2: which operator</summary>
#
# `//` rounds down, and you want to round up. What could you add to the number of tokens first, so
# that rounding down gives the right answer?
#
# </details>
# <details><summary>Hint 3: a case to try on paper</summary>
#
# With blocks of 4, the tokens 5, 6, 7 and 8 all need 2 blocks. Adding which number brings all
# four of them into the range from 8 to 11?
#
# </details>

# %% [markdown]
# ## Recap
#
# - An engine turns many requests into a row of steps; each step is one run of the model.
# - Prefill computes a prompt; decode adds a token; both share a step.
# - The KV cache keeps what was computed, so that no token is computed twice.
# - A token budget limits a step; a long prompt is cut into chunks.
# - What can't be served is refused before it is queued.
#
# **Questions**
#
# <details><summary>Why does the last token of an answer never enter the model?</summary>
#
# The model would say what comes after it, and nobody asks.
#
# </details>
# <details><summary>The budget is 24 and four requests decode. How full is a step?</summary>
#
# Four tokens: one for each request. Twenty places are free for the prompt of a newcomer.
#
# </details>
#
# **New words**: inference engine, token, chat template, prefill, decode, KV cache, chunk, block.

# %% [markdown]
# ## The real thing
#
# vLLM has the same front door (`vllm/entrypoints/llm.py`) and the same rule (`vllm/v1/core/sched/
# scheduler.py`). It adds a server, many more models, several machines, and images and sound as
# input. Speculative decoding and LoRA are left out here too.
#
# - Kwon et al., *Efficient Memory Management for Large Language Model Serving with PagedAttention*,
#   arXiv:2309.06180: the KV cache in blocks.
# - Agrawal et al., *Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve*,
#   arXiv:2403.02310: chunks of prompts beside decodes.
#
# Next: chapter 01, the layers that the model is made of.

# %%
llm.shutdown()
