"""A script for vLLM's offline API. It prints one line of JSON for each thing it tries."""

import json
import sys

from vllm import LLM, SamplingParams


def show(name, outputs):
    """What a script would read from the outputs."""
    for output in outputs:
        for completion in output.outputs:
            print(
                json.dumps(
                    {
                        "name": name,
                        "prompt": output.prompt,
                        "num_prompt_tokens": len(output.prompt_token_ids),
                        "finished": output.finished,
                        "index": completion.index,
                        "text": completion.text,
                        "token_ids": list(completion.token_ids),
                        "finish_reason": completion.finish_reason,
                        "stop_reason": completion.stop_reason,
                    }
                )
            )


def main():
    llm = LLM(model=sys.argv[1], dtype="float32", max_model_len=256, enforce_eager=True, seed=0)
    prompts = ["The capital of France is", "The capital of Italy is"]

    # One set of parameters for all prompts, and one for each.
    show("greedy", llm.generate(prompts, SamplingParams(temperature=0, max_tokens=8)))
    each = [SamplingParams(temperature=0, max_tokens=n) for n in (2, 4)]
    show("each", llm.generate(prompts, sampling_params=each, use_tqdm=False))
    show("one prompt", llm.generate(prompts[0], SamplingParams(temperature=0, max_tokens=3)))

    # Prompts as tokens.
    token_ids = llm.get_tokenizer().encode(prompts[0])
    greedy = SamplingParams(temperature=0.0, max_tokens=8)
    show("token ids", llm.generate({"prompt_token_ids": token_ids}, greedy))

    # Stop strings: the text of the greedy answer names one that is sure to come.
    text = llm.generate(prompts[0], greedy)[0].outputs[0].text
    stop = text[2:4]
    show("stop", llm.generate(prompts[0], SamplingParams(temperature=0, stop=[stop])))
    params = SamplingParams(temperature=0, stop=stop, include_stop_str_in_output=True)
    show("stop kept", llm.generate(prompts[0], params))

    # Several continuations, and seeds that repeat them.
    params = SamplingParams(n=3, temperature=0.8, top_p=0.95, top_k=40, seed=42, max_tokens=6)
    show("n", llm.generate(prompts[0], params))
    show("n again", llm.generate(prompts[0], params))
    penalties = SamplingParams(
        temperature=0.9,
        min_p=0.01,
        seed=1,
        presence_penalty=0.5,
        frequency_penalty=0.5,
        repetition_penalty=1.1,
        logit_bias={5: -10.0},
        bad_words=["Rome"],
        min_tokens=2,
        max_tokens=6,
    )
    show("penalties", llm.generate(prompts[1], penalties))

    # Log-probabilities.
    params = SamplingParams(temperature=0, max_tokens=2, logprobs=2, prompt_logprobs=1)
    output = llm.generate(prompts[0], params)[0]
    completion = output.outputs[0]
    for token_id, logprobs in zip(completion.token_ids, completion.logprobs, strict=True):
        chosen = logprobs[token_id]
        print(
            json.dumps(
                {
                    "name": "logprobs",
                    "logprob": chosen.logprob,
                    "rank": chosen.rank,
                    "decoded_token": chosen.decoded_token,
                    "num_entries": len(logprobs),
                    "cumulative": completion.cumulative_logprob,
                    "num_prompt_rows": len(output.prompt_logprobs),
                    "first_prompt_row": output.prompt_logprobs[0],
                }
            )
        )

    # Conversations, one and several.
    conversation = [{"role": "user", "content": "What is the capital of France?"}]
    show("chat", llm.chat(conversation, SamplingParams(temperature=0, max_tokens=12)))
    show("chats", llm.chat([conversation] * 2, SamplingParams(temperature=0, max_tokens=4)))


if __name__ == "__main__":
    main()
