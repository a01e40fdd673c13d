"""Executors carry a plan to the worker, or workers, that run it."""
