"""The worker turns a plan into tensors and tensors into token ids, on one device.

Reading order: `worker.py`, `model_runner.py`, `input_batch.py`, `prepare_inputs.py`,
`prompt_logprobs.py`.
"""
