"""Log-probabilities on their way from the worker to the engine, for the requests that ask.

Most requests don't, so they travel beside a step's tokens and are put to them afterwards.
Next file to read: `minivllm/engine/logprobs.py`, where they get their text.
"""

from __future__ import annotations

from minivllm.messages import EngineCoreOutput, ModelRunnerOutput


def attach_logprobs(core_outputs: list[EngineCoreOutput], output: ModelRunnerOutput) -> None:
    """Put what `output` brings to its request's entry in `core_outputs`.

    A request that computed a chunk of its prompt got no token and has no entry: it gets one.
    """
    entries = {core_output.request_id: core_output for core_output in core_outputs}
    for request_id, logprobs in output.logprobs.items():
        entries[request_id].logprobs = logprobs
    for request_id, prompt_logprobs in output.prompt_logprobs.items():
        if request_id not in entries:
            entries[request_id] = EngineCoreOutput(request_id, ())
            core_outputs.append(entries[request_id])
        entries[request_id].prompt_logprobs = prompt_logprobs
