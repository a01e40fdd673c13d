"""An engine whose model says what the test wants, whatever its weights."""

from collections import Counter
from dataclasses import replace


def speak(llm, token_ids):
    """Let every request of `llm` generate `token_ids`, again and again.

    A dict gives each request its own, by its name in the core.
    """
    executor, num_said = llm.engine.core.executor, Counter()
    execute_model = type(executor).execute_model

    def scripted(plan):
        output, said = execute_model(executor, plan), []
        for request_id in output.request_ids:
            script = token_ids[request_id] if isinstance(token_ids, dict) else token_ids
            said.append(script[num_said[request_id] % len(script)])
            num_said[request_id] += 1
        return replace(output, sampled_token_ids=said)

    executor.execute_model = scripted
