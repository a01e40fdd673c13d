"""The benchmarks, which `minivllm bench` runs.

Reading order:

    report.py  floors.py  ceilings.py            figures, and the least that they could be
    adapter.py  throughput.py  latency.py        any engine, on W1 and W2
    prefix.py  mixed.py                          this engine, on W4 and W5
    trial.py  attention_trials.py  small_trials.py  kernels.py     on a GPU: kernel by kernel (W3)
    profile.py                                   on a GPU: what a step is spent on
    planner.py  cpu_engine.py                    the scheduler alone (W6); beside transformers (W7)
    tables.py                                    recorded results as tables of a README

Recorded results are in `benchmarks/`.
"""
