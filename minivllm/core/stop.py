"""When a request ends, as far as token ids tell. Stop strings need text and are the engine's.

Source: vLLM: v1/core/sched/utils.py, `check_stop`.
"""

from __future__ import annotations

from minivllm.core.request import Request


def check_stop(request: Request) -> bool:
    """Whether the request's last token ends it; `finish_reason` and `stop_reason` are set if so.

    A stop or end-of-text token comes before the length: a request whose last allowed token is
    end-of-text has said all it had to say. The stop reason of an end-of-text token is `None`.
    Before `min_tokens` only the length ends it.
    """
    last_token_id = request.token_ids[-1]
    if last_token_id in request.stop_token_ids and _has_min_tokens(request):
        request.finish_reason = "stop"
        if last_token_id not in request.eos_token_ids:
            request.stop_reason = last_token_id
        return True
    if len(request.token_ids) >= request.max_num_tokens:
        request.finish_reason = "length"
        return True
    return False


def _has_min_tokens(request: Request) -> bool:
    num_new = len(request.token_ids) - request.num_prompt_tokens
    return num_new >= request.sampling_params.min_tokens
