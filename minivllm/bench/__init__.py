"""The benchmarks: `planner.py` for the scheduler alone, `cpu_engine.py` for the whole engine.

Recorded results are in `benchmarks/`.
"""
