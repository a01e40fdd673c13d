from minivllm.bench.planner import Timing, minivllm_step, run_planner_benchmark


def test_timing_is_per_operation_with_its_spread():
    assert Timing.of([0.002, 0.001, 0.004], 1000) == Timing(2.0, 1.0, 4.0)


def test_measured_step_is_a_decode_step_of_every_request():
    step = minivllm_step(num_running=3, num_blocks=1000)
    for _ in range(20):
        step()  # asserts that each request got a token


def test_report_has_a_figure_for_everything_asked_for():
    report = run_planner_benchmark(num_repeats=1, num_running=(2,))
    assert "ratio to nano-vllm" not in report
    assert list(report["step by running requests"]) == ["2"]
    for timings in report.values():
        if isinstance(timings, dict):
            assert all(timing["median_us"] > 0 for timing in timings.values())
