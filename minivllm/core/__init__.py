"""The planner: which requests run, how many tokens of each, in which blocks. Imports no torch.

Reading order: `request.py`, `block_hash.py`, `free_block_queue.py`, `block_pool.py`,
`kv_cache_manager.py`, `request_queue.py`, `step_plan.py`, `stop.py`, `logprobs.py`, `scheduler.py`.
"""
