"""Engines short of blocks, budget or places: the tokens are those of an engine with plenty."""

import pytest
import torch
from checkpoints import VOCAB_SIZE, greedy_reference

from minivllm import LLM, ConfigError, SamplingParams
from minivllm.worker import worker as worker_module

GREEDY = SamplingParams(temperature=0, max_tokens=9, ignore_eos=True)
# Of lengths around the block size 4, two of them equal, one the start of another.
PROMPTS = [
    [7, 1, 4],
    [2, 9, 8, 6],
    [5, 5, 5, 5, 1],
    [2, 9, 8, 6],
    [3, 1, 4, 1, 5, 9, 2],
    [2, 9, 8, 6, 0, 0, 0, 0, 0],
    [11],
]


@pytest.fixture
def folder(tiny_checkpoint):
    return tiny_checkpoint("qwen3")


def build(folder, **settings):
    keywords = {"block_size": 4, "num_blocks": 64, "max_model_len": 64, **settings}
    return LLM(str(folder), device="cpu", **keywords)


def generate(llm, prompts, params=GREEDY):
    return llm.generate(prompts, params, use_tqdm=False)


def tokens(outputs):
    return [list(output.outputs[0].token_ids) for output in outputs]


def record_plans(llm):
    """A list that each step appends its plan to, with the requests that ran then."""
    executor, scheduler, plans = llm.engine.core.executor, llm.engine.core.scheduler, []
    execute_model = type(executor).execute_model

    def recording(plan):
        plans.append((plan, [request.request_id for request in scheduler.running]))
        return execute_model(executor, plan)

    executor.execute_model = recording
    return plans


@pytest.mark.parametrize("max_num_seqs", [1, 2, 7])
@pytest.mark.parametrize("num_blocks", [6, 9])
@pytest.mark.parametrize("budget", [1, 3, 64])
def test_any_limit_serves_every_prompt_in_order(folder, max_num_seqs, num_blocks, budget):
    llm = build(
        folder, max_num_seqs=max_num_seqs, num_blocks=num_blocks, max_num_batched_tokens=budget
    )
    plans = record_plans(llm)

    outputs = generate(llm, PROMPTS)

    assert [list(output.prompt_token_ids) for output in outputs] == PROMPTS
    assert tokens(outputs) == [greedy_reference(folder, prompt, 9) for prompt in PROMPTS]
    for plan, running in plans:
        scheduled = plan.num_scheduled_tokens
        assert len(running) <= max_num_seqs
        assert sum(scheduled.values()) <= budget
        assert sum(scheduled.values()) == budget or set(running) == set(scheduled)


def test_a_request_that_comes_back_goes_on_where_its_own_blocks_end(folder):
    llm = build(folder, num_blocks=7)
    plans, seen, hits_of_resumed = record_plans(llm), set(), []

    outputs = generate(llm, PROMPTS)

    for plan, _ in plans:
        for new in plan.new_requests:
            if new.request_id in seen:
                hits_of_resumed.append(new.num_computed_tokens)
            seen.add(new.request_id)
    assert max(hits_of_resumed) > 0
    assert tokens(outputs) == [greedy_reference(folder, prompt, 9) for prompt in PROMPTS]


def test_a_preempted_request_gets_one_token_at_a_time_and_keeps_its_prompt(folder):
    llm = build(folder, num_blocks=6)
    for number, prompt in enumerate(PROMPTS):
        llm.engine.add_request(str(number), prompt, GREEDY)
    reports = {str(number): [] for number in range(len(PROMPTS))}
    while llm.engine.has_unfinished_requests():
        for output in llm.engine.step():
            reports[output.request_id].append(output)

    assert sum(of_one[-1].metrics.num_preemptions for of_one in reports.values()) > 0
    for prompt, of_one in zip(PROMPTS, reports.values(), strict=True):
        assert [len(output.outputs[0].token_ids) for output in of_one] == list(range(1, 10))
        assert {output.prompt_token_ids for output in of_one} == {tuple(prompt)}


def test_equal_prompts_of_one_step_may_end_at_different_lengths(folder):
    prompt, lengths = [4, 3, 2, 1, 4, 3, 2, 1, 9], [1, 8, 3, 5]
    params = [SamplingParams(temperature=0, max_tokens=n, ignore_eos=True) for n in lengths]
    expected = greedy_reference(folder, prompt, max(lengths))
    found = tokens(generate(build(folder), [prompt] * 4, params))
    assert found == [expected[:n] for n in lengths]


def test_a_running_request_gets_its_token_in_each_step_while_a_long_prompt_is_read(folder):
    llm = build(folder, max_model_len=256, max_num_batched_tokens=8)
    llm.engine.add_request("short", [1, 2], SamplingParams(max_tokens=25, ignore_eos=True))
    llm.engine.step()
    plans = record_plans(llm)
    llm.engine.add_request("long", [5] * 150, GREEDY)
    for _ in range(20):
        llm.engine.step()
    assert [plan.num_scheduled_tokens["short"] for plan, _ in plans] == [1] * 20
    assert [plan.num_scheduled_tokens["long"] for plan, _ in plans] == [7] * 20


def test_logprobs_after_a_prefix_hit_are_those_without(folder):
    llm = build(folder)
    params = SamplingParams(temperature=0, max_tokens=1, logprobs=VOCAB_SIZE)
    prompt = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]

    (computed,), (hit,) = generate(llm, [prompt], params), generate(llm, [prompt], params)

    assert (computed.metrics.num_cached_tokens, hit.metrics.num_cached_tokens) == (0, 8)
    one, two = computed.outputs[0].logprobs[0], hit.outputs[0].logprobs[0]
    assert len(one) == VOCAB_SIZE
    for token_id, entry in one.items():
        assert two[token_id].logprob == pytest.approx(entry.logprob, abs=1e-4)


def test_a_cache_of_one_block_serves_what_fits_and_refuses_the_rest(folder):
    llm = build(folder, block_size=8, num_blocks=1)
    short = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
    outputs = generate(llm, [[1] * 5, [2] * 3], short)  # the last token needs no slot
    assert tokens(outputs) == [greedy_reference(folder, p, 4) for p in ([1] * 5, [2] * 3)]
    with pytest.raises(ValueError, match="needs 2 KV-cache blocks"):
        generate(llm, [[1] * 6], short)


def test_the_same_sampled_batch_twice_on_reused_blocks(folder):
    llm = build(folder, num_blocks=8)
    hot = [SamplingParams(temperature=1.5, seed=i, max_tokens=6, min_p=0.01) for i in range(7)]
    assert tokens(generate(llm, PROMPTS, hot)) == tokens(generate(llm, PROMPTS, hot))


def test_rows_of_one_batch_with_different_wishes_are_each_as_alone(folder):
    llm = build(folder)
    wishes = [
        GREEDY,
        SamplingParams(temperature=1e-4, seed=1, max_tokens=9, ignore_eos=True),
        SamplingParams(temperature=2.0, seed=2, top_k=3, max_tokens=9, logprobs=2),
        SamplingParams(temperature=0, top_p=0.1, repetition_penalty=1.7, max_tokens=9),
        SamplingParams(temperature=0, bad_words=["a"], logit_bias={5: 3.0}, max_tokens=9),
        SamplingParams(temperature=1.0, seed=3, min_p=0.2, presence_penalty=1.5, max_tokens=9),
        SamplingParams(temperature=0, min_tokens=5, prompt_logprobs=1, max_tokens=9),
    ]
    together = tokens(generate(llm, PROMPTS, wishes))
    alone = [
        tokens(generate(build(folder), [prompt], wish))[0]
        for prompt, wish in zip(PROMPTS, wishes, strict=True)
    ]
    assert together == alone


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (None, torch.float32),
        ("auto", torch.float32),
        ("float16", torch.float16),
        (torch.float16, torch.float16),
        ("bfloat16", torch.bfloat16),
    ],
)
def test_weights_and_cache_have_the_dtype_asked_for(folder, dtype, expected):
    llm = build(folder, dtype=dtype)
    runner = llm.engine.core.executor.worker.runner
    assert {parameter.dtype for parameter in runner.model.parameters()} == {expected}
    assert runner.kv_caches[0].key.dtype == expected
    assert len(tokens(generate(llm, [[1, 2, 3]]))[0]) == 9


@pytest.mark.parametrize("used_by_others", [0, 30_000, 80_000])
def test_memory_of_others_is_not_ours(folder, monkeypatch, used_by_others):
    """The GPU's arithmetic, with the GPU's answers made up; a block takes 3,072 bytes here."""
    llm = build(folder, gpu_memory_utilization=0.5, num_blocks=None, cpu_kv_cache_gib=1 / 1024)
    worker = llm.engine.core.executor.worker
    weights, total = 40_960, 200_000
    free = total - weights - used_by_others
    monkeypatch.setattr(worker, "device", torch.device("cuda"))
    monkeypatch.setattr(worker, "_profile_run", lambda: None)
    made_up = {
        "memory_allocated": lambda device: weights,
        "max_memory_allocated": lambda device: weights + 8_192,  # a step takes 8,192 more
        "reset_peak_memory_stats": lambda device: None,
        "empty_cache": lambda: None,
        "mem_get_info": lambda device: (free, total),
    }
    for name, answer in made_up.items():
        monkeypatch.setattr(worker_module.torch.cuda, name, answer)
    assert worker.bytes_per_block == 3_072
    left = total // 2 - weights - used_by_others - 8_192
    if left < 0:
        with pytest.raises(ConfigError, match=r"gpu_memory_utilization=0\.5 leaves 0 bytes"):
            worker.determine_num_blocks()
    else:
        assert worker.determine_num_blocks() == left // 3_072
