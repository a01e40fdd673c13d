"""Models, and how a checkpoint becomes one.

Reading order: `qwen3.py`, then its siblings; `hf_config.py`, `registry.py`, `loader.py`.
"""
