"""One step in flight, in the whole engine: what its users get is what the plain loop gives."""

import pytest
from checkpoints import greedy_reference

from minivllm import LLM, Parts, SamplingParams
from minivllm.core.scheduler import Scheduler
from minivllm.engine.step_loop import InTurn, OneInFlight

NUM_NEW = 9
GREEDY = SamplingParams(temperature=0, max_tokens=NUM_NEW, ignore_eos=True)
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


def build(folder, is_async=True, **settings):
    keywords = {"block_size": 4, "num_blocks": 64, "max_model_len": 64, **settings}
    return LLM(str(folder), device="cpu", async_scheduling=is_async, **keywords)


def generate(llm, prompts, params=GREEDY):
    return llm.generate(prompts, params, use_tqdm=False)


def tokens(outputs):
    return [list(output.outputs[0].token_ids) for output in outputs]


def numbers(places):
    """Log-probabilities, in whole thousandths: batches of another size round differently."""
    if places is None:
        return None
    return [
        None
        if of is None
        else {i: (round(1000 * each.logprob), each.rank) for i, each in of.items()}
        for of in places
    ]


def all_of(outputs):
    """All that a user sees, but for times."""
    return [
        (
            numbers(output.prompt_logprobs),
            [
                (one.text, one.token_ids, one.finish_reason, one.stop_reason, numbers(one.logprobs))
                for one in output.outputs
            ],
        )
        for output in outputs
    ]


def wishes(folder):
    """A kind of request each, ends of each kind among them."""
    plain = generate(build(folder, is_async=False), PROMPTS)
    texts, token_ids = [output.output_text for output in plain], tokens(plain)
    stop = {"temperature": 0, "max_tokens": NUM_NEW}
    return {
        "greedy": [GREEDY] * 7,
        "lengths": [SamplingParams(temperature=0, max_tokens=1 + i) for i in range(7)],
        "seeds": [SamplingParams(temperature=1.1, seed=i, max_tokens=NUM_NEW) for i in range(7)],
        "no seed": [SamplingParams(temperature=0.9, max_tokens=NUM_NEW)] * 7,
        "filters": [
            SamplingParams(temperature=2.0, seed=i, top_k=3, top_p=0.9, min_p=0.01)
            for i in range(7)
        ],
        "penalties": [
            GREEDY,
            SamplingParams(temperature=0, repetition_penalty=1.7, max_tokens=NUM_NEW),
            SamplingParams(temperature=1.0, seed=3, presence_penalty=1.5, max_tokens=NUM_NEW),
            SamplingParams(temperature=1.0, seed=4, frequency_penalty=2.0, logprobs=2),
            SamplingParams(temperature=0, min_tokens=5, stop_token_ids=[token_ids[4][1]]),
            SamplingParams(temperature=0, bad_words=["a", texts[5][:2]], max_tokens=NUM_NEW),
            SamplingParams(temperature=0, logit_bias={5: 3.0}, max_tokens=NUM_NEW),
        ],
        "logprobs": [
            SamplingParams(temperature=0.5, seed=1, logprobs=i % 3, prompt_logprobs=2, max_tokens=i)
            for i in range(1, 8)
        ],
        "stop tokens": [
            SamplingParams(**stop, stop_token_ids=[each[i]], logprobs=1)
            for i, each in enumerate(token_ids)
        ],
        "stop strings": [
            SamplingParams(**stop, stop=text[i : i + 1]) for i, text in enumerate(texts)
        ],
        "several": [SamplingParams(n=3, seed=5, max_tokens=4, logprobs=1)] * 7,
    }


SETTINGS = {
    "crowd": {},
    "budget 1": {"max_num_batched_tokens": 1},
    "budget 5, few blocks": {"max_num_batched_tokens": 5, "num_blocks": 7},
    "three at once": {"max_num_seqs": 3},
    "few blocks": {"num_blocks": 6},
    "by priority, few blocks": {"scheduling_policy": "priority", "num_blocks": 7},
    "no prefix cache": {"enable_prefix_caching": False},
}
KINDS = [
    "greedy",
    "lengths",
    "seeds",
    "no seed",
    "filters",
    "penalties",
    "logprobs",
    "stop tokens",
    "stop strings",
    "several",
]


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_a_request_asks_for_it_gets_what_the_plain_loop_gives(folder, kind):
    params = wishes(folder)[kind]
    expected = all_of(generate(build(folder, is_async=False), PROMPTS, params))
    for settings in SETTINGS.values():
        assert all_of(generate(build(folder, **settings), PROMPTS, params)) == expected


def test_all_kinds_of_requests_in_one_batch_and_again_with_a_warm_cache(folder):
    params = [param for of_kind in wishes(folder).values() for param in of_kind]
    prompts = PROMPTS * len(KINDS)
    plain, in_flight = (build(folder, is_async, num_blocks=24) for is_async in (False, True))
    for _ in range(2):
        assert all_of(generate(in_flight, prompts, params)) == all_of(
            generate(plain, prompts, params)
        )
    assert in_flight.stats().num_output_tokens == plain.stats().num_output_tokens
    assert in_flight.engine.core.kv_cache_manager.usage == 0


def watch(llm):
    """What the worker is told and asked for, in order; and how many tokens it computes."""
    executor, log, num_computed = llm.engine.core.executor, [], []
    start = executor.start

    class Watched:
        def __init__(self, plan):
            self.step, self.pending = plan.step, start(plan)

        def result(self):
            log.append(f"result {self.step}")
            return self.pending.result()

    def watched(plan):
        log.append(f"start {plan.step}")
        num_computed.append(plan.total_num_scheduled_tokens)
        return Watched(plan)

    executor.start = watched
    return log, num_computed


def test_a_step_is_started_before_the_tokens_of_the_one_before_are_asked_for(folder):
    llm = build(folder)
    log, num_computed = watch(llm)
    generate(llm, [[1, 2, 3]], SamplingParams(temperature=0, max_tokens=3, ignore_eos=True))
    assert log == ["start 0", "start 1", "result 0", "start 2", "result 1", "start 3", "result 2"]
    assert num_computed == [3, 1, 1, 0]  # an end by length is known in time


def test_an_end_by_token_costs_one_more_token(folder):
    expected = greedy_reference(folder, PROMPTS[0], NUM_NEW)
    end = SamplingParams(temperature=0, stop_token_ids=[expected[2]], max_tokens=NUM_NEW)
    num_needed = expected.index(expected[2]) + 1
    llm = build(folder)
    _, num_computed = watch(llm)
    assert tokens(generate(llm, [PROMPTS[0]], end)) == [expected[:num_needed]]
    assert sum(num_computed) == len(PROMPTS[0]) + num_needed  # the last is not computed otherwise


def test_rules_that_count_tokens_are_planned_with_the_tokens_known(folder):
    llm = build(folder)
    log, _ = watch(llm)
    rule = SamplingParams(temperature=0, max_tokens=3, presence_penalty=1.0, ignore_eos=True)
    generate(llm, [[1, 2, 3]], rule)
    assert log[:5] == ["start 0", "result 0", "start 1", "result 1", "start 2"]


def test_tokens_come_one_call_later_each_in_a_call_of_its_own(folder):
    llm = build(folder)
    llm.engine.add_request("a", PROMPTS[0], GREEDY)
    reports = [llm.engine.step() for _ in range(NUM_NEW + 1)]
    seen = [[len(output.outputs[0].token_ids) for output in outputs] for outputs in reports]
    assert seen == [[], *([n] for n in range(1, NUM_NEW + 1))]
    assert not llm.engine.has_unfinished_requests()


def test_a_stream_gives_the_same_pieces(folder):
    pieces = [list(build(folder, is_async).stream("abc", GREEDY)) for is_async in (False, True)]
    assert pieces[0] == pieces[1]


def test_requests_of_a_user_go_on_while_generate_and_stream_run(folder):
    llm = build(folder)
    llm.engine.add_request("mine", PROMPTS[4], GREEDY)
    assert tokens(generate(llm, PROMPTS[:2])) == [
        greedy_reference(folder, prompt, NUM_NEW) for prompt in PROMPTS[:2]
    ]
    found = {}
    while llm.engine.has_unfinished_requests():
        found.update({output.request_id: output for output in llm.engine.step()})
    assert tokens([found["mine"]]) == [greedy_reference(folder, PROMPTS[4], NUM_NEW)]


@pytest.mark.parametrize("num_steps", range(1, 6))
@pytest.mark.parametrize("logprobs", [None, 1])
def test_a_name_can_be_used_again_at_once_after_an_abort(folder, num_steps, logprobs):
    llm = build(folder, max_num_batched_tokens=4)
    asked = {"logprobs": logprobs, "prompt_logprobs": logprobs, "temperature": 0}
    llm.engine.add_request("a", PROMPTS[5], SamplingParams(**asked))
    llm.engine.add_request("b", PROMPTS[0], GREEDY)
    for _ in range(num_steps):
        llm.engine.step()
    (aborted,) = llm.engine.abort("a")
    said = list(aborted.outputs[0].token_ids)
    llm.engine.add_request("a", PROMPTS[2], SamplingParams(**asked, max_tokens=6))
    found = {}
    while llm.engine.has_unfinished_requests():
        found.update({output.request_id: output for output in llm.engine.step()})

    assert said == greedy_reference(folder, PROMPTS[5], 16)[: len(said)]
    assert tokens([found["a"]]) == [greedy_reference(folder, PROMPTS[2], 6)]
    assert tokens([found["b"]]) == [greedy_reference(folder, PROMPTS[0], NUM_NEW)]
    if logprobs:
        assert len(found["a"].outputs[0].logprobs) == 6
        assert len(found["a"].prompt_logprobs) == len(PROMPTS[2])


def test_calls_without_prompts_and_call_after_call(folder):
    llm = build(folder)
    assert generate(llm, []) == []
    expected = [greedy_reference(folder, prompt, NUM_NEW) for prompt in PROMPTS]
    ends = [SamplingParams(temperature=0, stop_token_ids=[each[2]]) for each in expected]
    for _ in range(3):  # each leaves a step under way that nobody waits for
        generate(llm, PROMPTS, ends)
        assert not llm.engine.has_unfinished_requests()
        assert llm.reset_prefix_cache()
        assert tokens(generate(llm, PROMPTS)) == expected
        assert generate(llm, []) == []


@pytest.mark.parametrize("error", [RuntimeError("boom"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", range(4))
def test_requests_survive_an_error_while_tokens_are_waited_for(folder, error, at):
    llm = build(folder, max_num_batched_tokens=5)
    for number, prompt in enumerate(PROMPTS):
        llm.engine.add_request(str(number), prompt, GREEDY)
    start, num_calls = llm.engine.core.executor.start, [0]

    class Failing:
        def __init__(self, pending):
            self.pending = pending

        def result(self):
            num_calls[0] += 1
            if num_calls[0] == at + 1:
                raise error
            return self.pending.result()

    llm.engine.core.executor.start = lambda plan: Failing(start(plan))
    found = {}
    while llm.engine.has_unfinished_requests():
        try:
            found.update({output.request_id: output for output in llm.engine.step()})
        except (RuntimeError, KeyboardInterrupt):
            assert num_calls[0] == at + 1
        llm.engine.core.kv_cache_manager.check()
    assert tokens([found[str(number)] for number in range(len(PROMPTS))]) == [
        greedy_reference(folder, prompt, NUM_NEW) for prompt in PROMPTS
    ]


def test_log_probabilities_survive_a_failed_step_of_a_request_with_penalties(folder):
    llm = build(folder)
    params = SamplingParams(
        temperature=0, max_tokens=6, presence_penalty=1.0, logprobs=1, ignore_eos=True
    )
    llm.engine.add_request("a", PROMPTS[0], params)
    start, num_calls = llm.engine.core.executor.start, [0]

    def failing(plan):
        num_calls[0] += 1
        if num_calls[0] == 3:
            raise RuntimeError("boom")
        return start(plan)

    llm.engine.core.executor.start = failing
    found = []
    while llm.engine.has_unfinished_requests():
        try:
            found = llm.engine.step() or found
        except RuntimeError:
            assert num_calls[0] == 3
    (completion,) = found[-1].outputs
    assert [next(iter(of)) for of in completion.logprobs] == list(completion.token_ids)


def test_a_trace_shows_each_plan_once_and_each_end_at_its_place(folder):
    llm = build(folder, trace=True, num_blocks=7)
    generate(llm, PROMPTS)
    kinds = [type(event).__name__ for event in llm.trace.events]
    assert kinds.count("RequestFinished") == len(PROMPTS)
    steps = [e.step for e in llm.trace.events if type(e).__name__ == "StepExecuted"]
    assert steps == list(range(len(steps)))


def test_an_own_scheduler_runs_in_turn(folder):
    llm = build(folder, parts=Parts(scheduler=Scheduler))
    log, _ = watch(llm)
    assert tokens(generate(llm, PROMPTS)) == [
        greedy_reference(folder, prompt, NUM_NEW) for prompt in PROMPTS
    ]
    assert log[:4] == ["start 0", "result 0", "start 1", "result 1"]


@pytest.mark.parametrize(
    ("is_async", "loop"), [(None, InTurn), (False, InTurn), (True, OneInFlight)]
)
def test_steps_overlap_where_they_are_asked_to_and_on_a_cpu_not_by_default(folder, is_async, loop):
    assert type(build(folder, is_async).engine.core._loop) is loop
