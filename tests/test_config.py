import dataclasses
import pickle
from pathlib import Path

import pytest

from minivllm.config import (
    CacheConfig,
    LLMConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
)
from minivllm.errors import ConfigError
from minivllm.parts import Parts

NAN, INF = float("nan"), float("inf")
NO_COUNTS = [0, -1, 1.0, 2.5, NAN, INF, "8", True, False, [8]]  # none is a whole number above 0
NO_BOOLS = [0, 1, "yes", None, 1.0]

WRONG = {
    (ModelConfig, "model"): ["", "  ", None, 3, True, b"x", ["a"]],
    (ModelConfig, "tokenizer"): ["", " ", 3, False],
    (ModelConfig, "device"): ["gpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda 0", "auto:0", None, 0],
    (ModelConfig, "dtype"): ["int8", "", "Float16", 16, float, "torch.int64", True],
    (ModelConfig, "load_format"): ["pt", "", None, 1, True],
    (ModelConfig, "attention_backend"): ["flash", "", None, "SDPA", 1],
    (ModelConfig, "enforce_eager"): NO_BOOLS,
    (ModelConfig, "seed"): [-1, 1.0, NAN, "1", True, None],
    (CacheConfig, "block_size"): [*NO_COUNTS, None, 3, 6, 24, -16],
    (CacheConfig, "num_blocks"): NO_COUNTS,
    (CacheConfig, "gpu_memory_utilization"): [0, -0.1, 1.01, 90, NAN, INF, "0.9", True, None],
    (CacheConfig, "cpu_kv_cache_gib"): [0, -1, NAN, INF, -INF, "1", True, None, 10**400],
    (CacheConfig, "enable_prefix_caching"): NO_BOOLS,
    (SchedulerConfig, "max_model_len"): [*NO_COUNTS, 1],
    (SchedulerConfig, "max_num_batched_tokens"): NO_COUNTS,
    (SchedulerConfig, "max_num_seqs"): [*NO_COUNTS, None],
    (SchedulerConfig, "enable_chunked_prefill"): NO_BOOLS,
    (SchedulerConfig, "scheduling_policy"): ["lifo", "", None, "FCFS", 0],
    (SchedulerConfig, "async_scheduling"): [0, 1, "yes"],
    (ParallelConfig, "tensor_parallel_size"): [*NO_COUNTS, None, 2],
    (LLMConfig, "trace"): NO_BOOLS,
    (LLMConfig, "model_config"): [None, "smollm2", {}, CacheConfig()],
    (LLMConfig, "parts"): [None, {}, "sampler"],
}

RIGHT = {
    (ModelConfig, "model"): ["qwen", "org/name", Path("folder")],
    (ModelConfig, "tokenizer"): [None, "org/name", Path("folder")],
    (ModelConfig, "device"): ["auto", "cpu", "cuda", "cuda:0", "cuda:11"],
    (ModelConfig, "load_format"): ["auto", "safetensors", "dummy"],
    (ModelConfig, "attention_backend"): ["auto", "reference", "sdpa", "triton"],
    (ModelConfig, "seed"): [0, 2**40],
    (CacheConfig, "block_size"): [1, 2, 8, 16, 256],
    (CacheConfig, "num_blocks"): [None, 1, 10**6],
    (CacheConfig, "gpu_memory_utilization"): [0.01, 0.9, 1, 1.0],
    (CacheConfig, "cpu_kv_cache_gib"): [0.001, 1, 100],
    (SchedulerConfig, "max_model_len"): [None, 2, 10**6],
    (SchedulerConfig, "max_num_batched_tokens"): [None, 1, 10**6],
    (SchedulerConfig, "max_num_seqs"): [1, 1000],
    (SchedulerConfig, "scheduling_policy"): ["fcfs", "priority"],
    (SchedulerConfig, "async_scheduling"): [None, True, False],
}


def cases(table):
    return [
        pytest.param(kind, name, value, id=f"{kind.__name__}.{name}={value!r}"[:60])
        for (kind, name), values in table.items()
        for value in values
    ]


def test_every_field_is_in_the_table_of_wrong_values():
    kinds = (ModelConfig, CacheConfig, SchedulerConfig, ParallelConfig)
    fields = {(kind, f.name) for kind in kinds for f in dataclasses.fields(kind)}
    assert fields <= WRONG.keys()


@pytest.mark.parametrize(("kind", "name", "value"), cases(WRONG))
def test_wrong_value_is_refused_with_its_name_and_value(kind, name, value):
    with pytest.raises(ConfigError) as error:
        kind(**{name: value})
    assert name in str(error.value)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize(("kind", "name", "value"), cases(RIGHT))
def test_right_value_is_kept_as_it_is(kind, name, value):
    assert getattr(kind(**{name: value}), name) == value


def test_a_config_error_is_a_value_error():
    with pytest.raises(ValueError, match="block_size=3 must be a power of two"):
        CacheConfig(block_size=3)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (None, "auto"),
        ("auto", "auto"),
        ("float32", "float32"),
        ("float", "float32"),
        ("fp32", "float32"),
        ("float16", "float16"),
        ("half", "float16"),
        ("fp16", "float16"),
        ("bfloat16", "bfloat16"),
        ("bf16", "bfloat16"),
        ("torch.float16", "float16"),
    ],
)
def test_dtype_has_one_name_however_it_is_spelled(dtype, name):
    assert ModelConfig(dtype=dtype).dtype_name == name


def test_torch_dtypes_are_accepted():
    torch = pytest.importorskip("torch")
    for name in ("float32", "float16", "bfloat16"):
        assert ModelConfig(dtype=getattr(torch, name)).dtype_name == name
    with pytest.raises(ConfigError, match=r"dtype=torch\.int8 is unknown"):
        ModelConfig(dtype=torch.int8)


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig(),
        CacheConfig(),
        SchedulerConfig(),
        ParallelConfig(),
        LLMConfig(),
        LLMConfig(
            model_config=ModelConfig(model=Path("here"), dtype="half", seed=3),
            cache_config=CacheConfig(block_size=32, num_blocks=7),
            scheduler_config=SchedulerConfig(max_model_len=64, scheduling_policy="priority"),
            trace=True,
        ),
    ],
    ids=lambda config: type(config).__name__,
)
def test_configs_are_frozen_and_survive_pickling(config):
    assert pickle.loads(pickle.dumps(config)) == config
    name = dataclasses.fields(config)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(config, name, None)


def test_fields_are_named_not_counted():
    with pytest.raises(TypeError):
        CacheConfig(16)


def test_two_configs_share_nothing_that_can_change():
    assert LLMConfig() == LLMConfig()
    assert LLMConfig().model_config is not LLMConfig().model_config


# The budget against the context length.


def test_budget_below_the_context_is_refused_while_chunking_is_off():
    with pytest.raises(ConfigError) as error:
        SchedulerConfig(max_model_len=9, max_num_batched_tokens=8, enable_chunked_prefill=False)
    for part in ("max_num_batched_tokens=8", "max_model_len=9", "enable_chunked_prefill"):
        assert part in str(error.value)


def test_budget_equal_to_the_context_is_enough_while_chunking_is_off():
    SchedulerConfig(max_model_len=8, max_num_batched_tokens=8, enable_chunked_prefill=False)


def test_any_budget_will_do_while_chunking_is_on():
    SchedulerConfig(max_model_len=4096, max_num_batched_tokens=1)


def test_resolving_takes_the_models_limit_and_the_default_budget():
    resolved = SchedulerConfig().resolved(512)
    assert (resolved.max_model_len, resolved.max_num_batched_tokens) == (512, 2048)


def test_resolving_keeps_what_was_asked_for():
    config = SchedulerConfig(max_model_len=64, max_num_batched_tokens=7, max_num_seqs=3)
    assert config.resolved(512) == config
    assert config.resolved(64) == config


def test_resolving_leaves_the_original_alone():
    config = SchedulerConfig()
    config.resolved(512)
    assert config == SchedulerConfig()


def test_context_beyond_the_model_is_refused_with_both_numbers():
    with pytest.raises(ConfigError, match=r"max_model_len=513 .* 512 tokens"):
        SchedulerConfig(max_model_len=513).resolved(512)


def test_default_budget_grows_to_a_whole_prompt_while_chunking_is_off():
    resolved = SchedulerConfig(enable_chunked_prefill=False).resolved(8192)
    assert resolved.max_num_batched_tokens == 8192
    assert SchedulerConfig(enable_chunked_prefill=False).resolved(64).max_num_batched_tokens == 2048


def test_small_budget_is_refused_once_the_models_limit_is_known():
    config = SchedulerConfig(max_num_batched_tokens=100, enable_chunked_prefill=False)
    with pytest.raises(ConfigError, match=r"max_num_batched_tokens=100 .* max_model_len=512"):
        config.resolved(512)


# Flat keywords.


def test_keywords_find_their_group():
    parts = Parts(sampler=list)
    config = LLMConfig.from_keywords(
        model="qwen",
        block_size=32,
        max_num_seqs=5,
        tensor_parallel_size=1,
        trace=True,
        parts=parts,
    )
    assert config == LLMConfig(
        model_config=ModelConfig(model="qwen"),
        cache_config=CacheConfig(block_size=32),
        scheduler_config=SchedulerConfig(max_num_seqs=5),
        trace=True,
        parts=parts,
    )


def test_no_keywords_give_the_defaults():
    assert LLMConfig.from_keywords() == LLMConfig()


@pytest.mark.parametrize("name", ["blocksize", "Model", "max_seqs", "model_config", ""])
def test_unknown_keyword_is_named_with_those_there_are(name):
    with pytest.raises(ConfigError) as error:
        LLMConfig.from_keywords(model="qwen", **{name: 1})
    assert repr(name) in str(error.value)
    assert "block_size" in str(error.value)
    assert "trace" in str(error.value)


def test_all_unknown_keywords_are_named_at_once():
    with pytest.raises(ConfigError, match="unknown keyword 'aa', 'bb'"):
        LLMConfig.from_keywords(bb=1, aa=2)


def test_wrong_value_of_a_keyword_is_refused_with_its_name():
    with pytest.raises(ConfigError, match="block_size=5"):
        LLMConfig.from_keywords(block_size=5)


def test_every_keyword_of_the_public_api_is_known():
    names = [
        "model",
        "tokenizer",
        "device",
        "dtype",
        "max_model_len",
        "max_num_seqs",
        "max_num_batched_tokens",
        "block_size",
        "num_blocks",
        "gpu_memory_utilization",
        "cpu_kv_cache_gib",
        "enable_prefix_caching",
        "enable_chunked_prefill",
        "scheduling_policy",
        "async_scheduling",
        "attention_backend",
        "enforce_eager",
        "tensor_parallel_size",
        "seed",
        "load_format",
        "trace",
        "parts",
    ]
    kinds = (ModelConfig, CacheConfig, SchedulerConfig, ParallelConfig)
    known = {f.name for kind in kinds for f in dataclasses.fields(kind)} | {"trace", "parts"}
    assert known == set(names)


def test_callers_dictionary_of_keywords_stays_as_it_was():
    keywords = {"model": "qwen", "trace": True}
    LLMConfig.from_keywords(**keywords)
    assert keywords == {"model": "qwen", "trace": True}
