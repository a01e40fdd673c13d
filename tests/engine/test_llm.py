"""LLM as a user meets it: constructions, prompts, limits, errors, and what survives them."""

import json
import shutil
import subprocess
import sys

import pytest
import torch
from checkpoints import greedy_reference

from minivllm import (
    LLM,
    CacheConfig,
    ConfigError,
    EngineDeadError,
    LLMConfig,
    ModelConfig,
    RequestError,
    SamplingParams,
    SchedulerConfig,
)

GREEDY = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
PROMPT = [5, 6, 7, 8, 9]


def build(folder, **settings):
    keywords = {"block_size": 4, "num_blocks": 32, "max_model_len": 64, **settings}
    return LLM(str(folder), device="cpu", **keywords)


@pytest.fixture
def folder(tiny_checkpoint):
    return tiny_checkpoint("qwen3")


@pytest.fixture
def llm(folder):
    return build(folder)


def generate(llm, prompts, params=GREEDY, **keywords):
    return llm.generate(prompts, params, use_tqdm=False, **keywords)


def tokens(outputs):
    return [list(output.outputs[0].token_ids) for output in outputs]


def test_a_config_and_keywords_build_the_same_engine(folder):
    config = LLMConfig(
        model_config=ModelConfig(model=folder, device="cpu", dtype=torch.float32),
        cache_config=CacheConfig(block_size=4, gpu_memory_utilization=0.8, num_blocks=32),
        scheduler_config=SchedulerConfig(
            max_model_len=64, max_num_batched_tokens=64, max_num_seqs=2
        ),
    )
    from_config = generate(LLM(config), [PROMPT])
    assert tokens(from_config) == tokens(generate(build(folder), [PROMPT]))


def test_an_unknown_keyword_is_named(folder):
    with pytest.raises(ConfigError, match="'blok_size'"):
        LLM(str(folder), blok_size=4)


def test_a_config_together_with_keywords_is_refused():
    with pytest.raises(ConfigError, match="block_size"):
        LLM(LLMConfig(), block_size=4)


def test_prompts_can_be_text_ids_or_dicts(llm):
    text = "abcde"
    ids = llm.get_tokenizer().encode(text)
    forms = [text, ids, {"prompt": text}, {"prompt_token_ids": ids}]

    outputs = generate(llm, forms)

    assert len({output.outputs[0].token_ids for output in outputs}) == 1
    assert [output.prompt for output in outputs] == [text, None, text, None]
    assert {output.prompt_token_ids for output in outputs} == {tuple(ids)}


@pytest.mark.parametrize("prompt", ["abcde", [97, 98, 99], {"prompt": "abcde"}])
def test_one_prompt_gives_a_list_of_one(llm, prompt):
    assert len(generate(llm, prompt)) == 1


def test_no_prompts_give_no_outputs(llm):
    assert generate(llm, []) == []


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        ([], "empty"),
        ("", "empty"),
        ({"prompt": ""}, "empty"),
        ([5, -1], "-1"),
        ([5, 320], "320"),
        ([5, 10**9], str(10**9)),
        ([5, True], "True"),
        ([5, 1.5], "1.5"),
        ([5, "a"], "'a'"),
        ({"text": "abc"}, "text"),
        ({"prompt": [1]}, "prompt"),
        ({"prompt_token_ids": "abc"}, "abc"),
        ({"prompt": "a", "prompt_token_ids": [1]}, "prompt_token_ids"),
        (5, "5"),
        (None, "None"),
        (b"abc", "abc"),
    ],
)
def test_a_prompt_that_is_none_is_refused_and_the_next_one_works(llm, prompt, named):
    with pytest.raises(RequestError, match=named):
        generate(llm, [[1, 2, 3], prompt])

    assert not llm.engine.has_unfinished_requests()
    llm.engine.core.kv_cache_manager.check()
    assert len(generate(llm, [PROMPT])) == 1


@pytest.mark.parametrize("length", [64, 65, 1000])
def test_a_prompt_as_long_as_the_context_is_refused_with_both_numbers(llm, length):
    with pytest.raises(RequestError, match=rf"{length} tokens.*max_model_len=64"):
        generate(llm, [[1] * length])


def test_a_prompt_one_shorter_than_the_context_gives_one_token(llm):
    output = generate(llm, [[1] * 63], SamplingParams(max_tokens=10, ignore_eos=True))[0]
    assert len(output.outputs[0].token_ids) == 1
    assert output.outputs[0].finish_reason == "length"


@pytest.mark.parametrize("max_tokens", [None, 1000])
def test_output_ends_where_the_context_does(llm, max_tokens):
    params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
    output = generate(llm, [PROMPT], params)[0]
    assert len(PROMPT) + len(output.outputs[0].token_ids) == 64
    assert output.outputs[0].finish_reason == "length"


def test_max_tokens_1_gives_one_token_and_frees_every_block(llm):
    output = generate(llm, [PROMPT], SamplingParams(max_tokens=1))[0]
    assert len(output.outputs[0].token_ids) == 1
    assert llm.engine.core.kv_cache_manager.usage == 0


def test_a_request_larger_than_the_cache_is_refused_with_needed_and_available(folder):
    llm = build(folder, num_blocks=4)
    with pytest.raises(RequestError, match=r"needs 7 KV-cache blocks.*has 4"):
        generate(llm, [[1] * 20], SamplingParams(max_tokens=8, ignore_eos=True))
    assert len(generate(llm, [[1] * 10])) == 1  # the next one is served


def test_a_context_beyond_the_model_is_refused_with_both_numbers(folder):
    with pytest.raises(ConfigError, match=r"max_model_len=1000.*256"):
        build(folder, max_model_len=1000)


def test_outputs_keep_the_order_of_prompts_of_different_lengths(folder):
    llm = build(folder, max_num_seqs=2, num_blocks=16)
    prompts = [[number] * (1 + number % 5) for number in range(1, 12)]
    params = [
        SamplingParams(temperature=0, max_tokens=1 + number % 7, ignore_eos=True)
        for number in range(len(prompts))
    ]

    outputs = generate(llm, prompts, params)

    assert [list(output.prompt_token_ids) for output in outputs] == prompts
    assert [len(output.outputs[0].token_ids) for output in outputs] == [
        param.max_tokens for param in params
    ]


def test_one_parameter_set_for_each_prompt_or_one_for_all(llm):
    with pytest.raises(RequestError, match="sampling_params has 2 entries for 3 prompts"):
        generate(llm, [PROMPT] * 3, [GREEDY] * 2)
    with pytest.raises(RequestError, match="priority has 1 entries for 2 prompts"):
        generate(llm, [PROMPT] * 2, GREEDY, priority=[1])


def test_parameters_of_another_type_are_refused(llm):
    with pytest.raises(RequestError, match="sampling_params"):
        generate(llm, [PROMPT], {"temperature": 0})


def test_stop_token_ids_beyond_the_vocabulary_are_refused(llm):
    with pytest.raises(RequestError, match="stop_token_ids holds 320"):
        generate(llm, [PROMPT], SamplingParams(stop_token_ids=[320]))


def test_a_stop_token_ends_the_request_and_stays_out_of_the_text(llm, folder):
    expected = greedy_reference(folder, PROMPT, 4)
    params = SamplingParams(
        temperature=0, max_tokens=4, ignore_eos=True, stop_token_ids=expected[2:3]
    )

    completion = generate(llm, [PROMPT], params)[0].outputs[0]

    end = expected.index(expected[2]) + 1
    assert list(completion.token_ids) == expected[:end]
    assert (completion.finish_reason, completion.stop_reason) == ("stop", expected[2])
    assert completion.text == llm.get_tokenizer().decode(
        expected[: end - 1], skip_special_tokens=True
    )


def test_every_eos_of_the_model_ends_a_request_unless_ignored(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "model")
    expected = greedy_reference(folder, PROMPT, 4)
    (copy / "generation_config.json").write_text(json.dumps({"eos_token_id": [expected[1], 300]}))
    llm = build(copy)

    stopped = generate(llm, [PROMPT], SamplingParams(temperature=0, max_tokens=4))[0].outputs[0]
    ignored = generate(llm, [PROMPT], GREEDY)[0].outputs[0]

    assert list(stopped.token_ids) == expected[: expected.index(expected[1]) + 1]
    assert (stopped.finish_reason, stopped.stop_reason) == ("stop", None)
    assert list(ignored.token_ids) == expected
    assert ignored.finish_reason == "length"


def test_the_defaults_of_the_generation_config_apply_only_without_parameters(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "model")
    (copy / "generation_config.json").write_text(json.dumps({"do_sample": True, "top_k": 1}))
    llm = build(copy)
    greedy = generate(llm, [PROMPT], SamplingParams(temperature=0, max_tokens=16, ignore_eos=True))

    default = generate(llm, [PROMPT], None)
    explicit = generate(llm, [PROMPT], SamplingParams(temperature=5.0, seed=1, ignore_eos=True))

    assert tokens(default)[0] == tokens(greedy)[0][: len(tokens(default)[0])]  # top_k=1 is greedy
    assert tokens(explicit) != tokens(greedy)


def test_params_and_prompts_of_the_caller_are_not_changed(llm):
    prompts, stop = [[1, 2, 3], [4, 5]], [7]
    params = SamplingParams(temperature=0.5, seed=3, stop_token_ids=stop)
    same = SamplingParams(temperature=0.5, seed=3, stop_token_ids=[7])

    generate(llm, prompts, params)

    assert (prompts, stop, params) == ([[1, 2, 3], [4, 5]], [7], same)


def test_a_seed_repeats_alone_and_in_a_crowd(llm):
    params = SamplingParams(temperature=1.5, seed=11, max_tokens=8, ignore_eos=True)
    others = SamplingParams(temperature=2.0, max_tokens=8, ignore_eos=True)
    alone = tokens(generate(llm, [PROMPT], params))[0]

    crowd = tokens(generate(llm, [[9], PROMPT, [8, 7]], [others, params, GREEDY]))[1]

    assert crowd == alone


def test_unseeded_requests_differ_and_a_new_engine_repeats_them(folder):
    params = SamplingParams(temperature=1.5, max_tokens=8, ignore_eos=True)
    first = tokens(generate(build(folder, seed=3), [PROMPT] * 3, params))

    assert len({tuple(row) for row in first}) == 3
    assert tokens(generate(build(folder, seed=3), [PROMPT] * 3, params)) == first
    assert tokens(generate(build(folder, seed=4), [PROMPT] * 3, params)) != first


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64 + 5, -(2**70)])
def test_any_whole_number_is_a_seed(llm, seed):
    params = SamplingParams(temperature=1.0, seed=seed)
    assert tokens(generate(llm, [PROMPT], params)) == tokens(generate(llm, [PROMPT], params))


def test_greedy_rows_are_not_disturbed_by_sampled_ones(llm):
    alone = tokens(generate(llm, [PROMPT]))[0]
    hot = SamplingParams(temperature=3.0, top_k=50, top_p=0.9, max_tokens=4, ignore_eos=True)
    assert tokens(generate(llm, [[1], PROMPT, [2]], [hot, GREEDY, hot]))[1] == alone


def test_priority_decides_who_finishes_first(folder):
    llm = build(folder, max_num_seqs=1, scheduling_policy="priority")
    for request_id, priority in (("late", 5), ("soon", 1), ("first", -3)):
        llm.engine.add_request(request_id, PROMPT, GREEDY, priority=priority)

    finished = []
    while llm.engine.has_unfinished_requests():
        finished += [output.request_id for output in llm.engine.step() if output.finished]

    assert finished == ["first", "soon", "late"]


def test_requests_can_join_while_others_run(llm, folder):
    llm.engine.add_request("a", PROMPT, GREEDY)
    llm.engine.step()
    llm.engine.add_request("b", [1, 2], GREEDY)

    outputs = {}
    while llm.engine.has_unfinished_requests():
        outputs.update({output.request_id: output for output in llm.engine.step()})

    assert list(outputs["a"].outputs[0].token_ids) == greedy_reference(folder, PROMPT, 4)
    assert list(outputs["b"].outputs[0].token_ids) == greedy_reference(folder, [1, 2], 4)


def test_a_streamed_request_reports_each_token(llm):
    llm.engine.add_request("a", PROMPT, GREEDY)
    reports = []
    while llm.engine.has_unfinished_requests():
        reports += llm.engine.step()
    assert [len(output.outputs[0].token_ids) for output in reports] == [1, 2, 3, 4]
    assert [output.finished for output in reports] == [False, False, False, True]


def test_an_id_in_use_is_refused_and_free_again_afterwards(llm):
    llm.engine.add_request("a", PROMPT, GREEDY)
    with pytest.raises(RequestError, match="'a' is in use"):
        llm.engine.add_request("a", PROMPT, GREEDY)
    while llm.engine.has_unfinished_requests():
        llm.engine.step()
    llm.engine.add_request("a", PROMPT, GREEDY)


@pytest.mark.parametrize("num_steps", [0, 1, 3])
def test_abort_frees_the_blocks_and_leaves_others_alone(folder, num_steps):
    llm = build(folder, max_num_batched_tokens=4)
    llm.engine.add_request("gone", [1] * 12, GREEDY)
    llm.engine.add_request("stays", PROMPT, GREEDY)
    for _ in range(num_steps):
        llm.engine.step()

    (output,) = llm.engine.abort("gone")
    again = llm.engine.abort(["gone", "unknown"])

    assert (output.finished, output.outputs[0].finish_reason) == (True, "abort")
    assert again == []
    last = {}
    while llm.engine.has_unfinished_requests():
        last = {output.request_id: output for output in llm.engine.step()}
        llm.engine.core.kv_cache_manager.check()
    assert list(last["stays"].outputs[0].token_ids) == greedy_reference(folder, PROMPT, 4)
    assert llm.engine.core.kv_cache_manager.usage == 0


def test_chat_renders_the_template_once(llm):
    messages = [{"role": "user", "content": "Hi"}]
    rendered = llm.get_tokenizer().apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=False
    )
    single = llm.chat(messages, GREEDY, use_tqdm=False)
    several = llm.chat([messages, messages], GREEDY, use_tqdm=False)
    assert list(single[0].prompt_token_ids) == list(rendered)
    assert tokens(several) == tokens(single) * 2


def test_chat_without_a_template_is_refused(llm):
    llm.get_tokenizer().chat_template = None
    with pytest.raises(RequestError, match="no chat template"):
        llm.chat([{"role": "user", "content": "Hi"}])


@pytest.mark.parametrize("messages", [[{"role": "user"}], [{"content": "x"}], [[]]])
def test_a_malformed_conversation_is_refused(llm, messages):
    with pytest.raises(RequestError, match="message"):
        llm.chat(messages)


def test_a_tokenizer_that_knows_more_tokens_than_the_model_is_noticed(llm):
    llm.get_tokenizer().add_tokens([f"<extra-{number}>" for number in range(80)])
    with pytest.raises(RequestError, match="tokenizer does not fit"):
        generate(llm, ["<extra-79>"])


def test_shutdown_twice_and_then_a_clear_error(llm):
    llm.shutdown()
    llm.shutdown()
    with pytest.raises(EngineDeadError, match="shut down"):
        generate(llm, [PROMPT])


def test_the_context_manager_shuts_down(folder):
    with build(folder) as llm:
        generate(llm, [PROMPT])
    with pytest.raises(EngineDeadError):
        generate(llm, [PROMPT])


def test_several_engines_live_in_one_process(tiny_checkpoint):
    one, two = build(tiny_checkpoint("qwen3")), build(tiny_checkpoint("llama"))
    expected = [
        greedy_reference(tiny_checkpoint(name), PROMPT, 4) for name in ("qwen3", "llama", "qwen3")
    ]
    assert [tokens(generate(llm, [PROMPT]))[0] for llm in (one, two, one)] == expected


def test_the_same_greedy_batch_twice_on_reused_blocks(folder):
    llm = build(folder, num_blocks=20, enable_prefix_caching=False)
    prompts = [[number, 3, number] for number in range(1, 8)]
    assert tokens(generate(llm, prompts)) == tokens(generate(llm, prompts))


def test_dummy_weights_need_no_weight_file(tiny_checkpoint, tmp_path):
    without_weights = shutil.ignore_patterns("*.safetensors")
    copy = shutil.copytree(tiny_checkpoint("qwen2"), tmp_path / "model", ignore=without_weights)
    first, again, other = (build(copy, load_format="dummy", seed=seed) for seed in (1, 1, 2))
    assert tokens(generate(first, [PROMPT])) == tokens(generate(again, [PROMPT]))
    assert tokens(generate(first, [PROMPT])) != tokens(generate(other, [PROMPT]))


@pytest.mark.parametrize("settings", [{"cpu_kv_cache_gib": 1e-7}, {"num_blocks": 10**9}])
def test_a_cache_that_does_not_fit_names_bytes_and_setting(folder, settings):
    with pytest.raises(ConfigError, match=r"[\d,]+ bytes") as caught:
        build(folder, **{"num_blocks": None, **settings})
    assert next(iter(settings)) in str(caught.value)


def test_the_size_of_the_cache_follows_from_its_bytes(folder):
    llm = build(folder, num_blocks=None, cpu_kv_cache_gib=1 / 1024)
    # 2 (K, V) * 3 layers * 2 KV heads * 16 dims * 4 bytes * 4 tokens
    bytes_per_block = 2 * 3 * 2 * 16 * 4 * 4
    assert llm.engine.core.kv_cache_manager.pool.num_blocks == 2**20 // bytes_per_block


def test_cuda_that_is_not_there_is_a_clear_error(folder):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(ConfigError, match="device='cuda'"):
        LLM(str(folder), device="cuda")


def test_one_process_never_initialises_torch_distributed(folder):
    code = (
        "import sys; from minivllm import LLM, SamplingParams\n"
        f"llm = LLM({str(folder)!r}, num_blocks=8, block_size=4, max_model_len=32)\n"
        "llm.generate([[1, 2]], SamplingParams(max_tokens=2), use_tqdm=False)\n"
        "import torch.distributed as dist\n"
        "assert not dist.is_initialized()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
