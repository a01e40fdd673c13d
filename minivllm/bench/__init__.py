"""The benchmarks, which `minivllm bench` runs.

Reading order: `report.py`; for the engine on any device `throughput.py`, `latency.py`, `prefix.py`,
`mixed.py`; for the scheduler alone `planner.py`; beside transformers on a CPU `cpu_engine.py`.
Recorded results are in `benchmarks/`.
"""
