"""The profile of a step: what is made of the profiler's trace; no GPU is asked."""

from __future__ import annotations

import pytest

from minivllm.bench.profile import (
    NUM_STEPS,
    GpuEvent,
    busy_microseconds,
    group_of,
    profile_row,
    read_gpu_events,
    run_profile,
    start_decoding,
)
from minivllm.errors import ConfigError
from minivllm.llm import LLM


@pytest.mark.parametrize(
    ("kernel", "group"),
    [
        ("_paged_decode", "attention"),
        ("_merge_parts", "attention"),
        ("void pytorch_flash::flash_fwd_splitkv_kernel<...>", "attention"),
        ("nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT", "matrix products"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32", "matrix products"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int>", "matrix products"),
        ("_one_row", "matrix products"),
        ("_best_of_parts", "sampling"),
        ("_best_of_rows", "sampling"),
        ("_rms_norm", "small kernels"),
        ("_qk_norm_rope_cache_write", "small kernels"),
        ("_silu_and_mul", "small kernels"),
        ("void at::native::vectorized_elementwise_kernel<4, ...>", "small kernels"),
        ("void at::native::index_elementwise_kernel<128, 4, ...>", "small kernels"),
        ("Memcpy HtoD (Pinned -> Device)", "other"),
    ],
)
def test_a_kernel_belongs_to_a_part_of_the_step(kernel, group):
    assert group_of(kernel) == group


def test_only_what_runs_on_the_gpu_is_taken_from_a_trace():
    trace = {
        "traceEvents": [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 9},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "ts": 1, "dur": 9},
            {"ph": "X", "cat": "kernel", "name": "_rms_norm", "ts": 2.5, "dur": 3},
            {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 7, "dur": 1},
            {"ph": "M", "name": "process_name", "ts": 0},
        ]
    }
    assert read_gpu_events(trace) == [
        GpuEvent("_rms_norm", 2.5, 3.0),
        GpuEvent("Memcpy HtoD", 7.0, 1.0),
    ]


def test_time_in_which_two_run_counts_once():
    events = [GpuEvent("a", 10, 5), GpuEvent("b", 0, 4), GpuEvent("c", 12, 6), GpuEvent("d", 13, 1)]
    assert busy_microseconds(events) == 4 + 8
    assert busy_microseconds([]) == 0


def test_groups_and_host_gap_are_milliseconds_of_one_step():
    names = {"_paged_decode": 300, "nvjet": 500, "_best_of_parts": 100, "Memset": 50}
    events, start = [], 0.0
    for _ in range(NUM_STEPS):
        for name, duration in names.items():
            events.append(GpuEvent(name, start, duration))
            start += duration
    row = profile_row(32, [1.4e-3, 1.2e-3, 1.25e-3], events)
    assert row == {
        "batch": 32,
        "wall": row["wall"],
        "GPU busy": pytest.approx(0.95),
        "attention": pytest.approx(0.3),
        "matrix products": pytest.approx(0.5),
        "sampling": pytest.approx(0.1),
        "small kernels": 0.0,
        "other": pytest.approx(0.05),
        "host gap": pytest.approx(0.3),
    }
    assert row["wall"].median == pytest.approx(1.25)


def test_steps_after_the_start_are_decode_steps_of_all_requests():
    limits = {"max_model_len": 64, "max_num_batched_tokens": 12, "enable_prefix_caching": False}
    with LLM("dummy-qwen3", load_format="dummy", device="cpu", **limits) as llm:
        request_ids = start_decoding(llm, batch_size=3, num_tokens=10)
        assert sorted(out.request_id for out in llm.engine.step()) == sorted(request_ids)
        llm.engine.abort(request_ids)
        assert not llm.engine.has_unfinished_requests()


def test_a_profile_needs_a_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ConfigError, match="bench profile measures a GPU"):
        run_profile({}, [1], 8)
