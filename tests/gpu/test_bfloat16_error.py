"""In bfloat16 our logits are off by at most twice what transformers' own are."""

import shutil
import tempfile
from pathlib import Path

import pytest
import torch
from checkpoints import BYTE_TOKENIZER, TOKENIZER_FILES
from gpu_engines import DEVICE, TRITON_MODES, build, generate, make_prompts
from transformers import AutoModelForCausalLM, Qwen3Config

from minivllm import SamplingParams
from minivllm.parts import Parts

pytestmark = pytest.mark.gpu

PROMPT_LENS = (300, 211, 128, 99, 64, 33, 17, 1)
NUM_STEPS = 20  # decode steps, after the prompt's own

QWEN3_06B = {
    "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "vocab_size": 151_936,
    "tie_word_embeddings": True, "max_position_embeddings": 1024, "initializer_range": 0.05,
    "bos_token_id": None, "eos_token_id": 257, "pad_token_id": None,
}  # fmt: skip


def save_random(shape, dtype, folder):
    """A random Qwen3, made and rounded to `dtype` on the GPU, where that takes no time."""
    torch.manual_seed(0)
    with torch.device(DEVICE):
        model = AutoModelForCausalLM.from_config(Qwen3Config(**shape), dtype=dtype)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("norm.weight"):
                    parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    for name in TOKENIZER_FILES:
        if (BYTE_TOKENIZER / name).exists():
            shutil.copy(BYTE_TOKENIZER / name, folder)


@torch.inference_mode()
def logits_of_transformers(folder, dtype, prompts, continuations):
    """Of each prompt's last token and of its continuation's, `[num_prompts, 1 + num_steps, V]`."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(DEVICE).eval()
    rows = []
    for prompt, continuation in zip(prompts, continuations.tolist(), strict=True):
        token_ids = torch.tensor([prompt + continuation], device=DEVICE)
        rows.append(model(token_ids, logits_to_keep=1 + len(continuation)).logits[0].float())
    return torch.stack(rows)


class Dictated:
    """In the sampler's place: notes the logits, and gives each request the next of its tokens.

    A row tells by its seed which request it is, and by its position how far that has come.
    """

    def __init__(self, prompts, continuations, vocab_size):
        num_prompts, num_steps = continuations.shape
        self.prompt_lens = torch.tensor([len(prompt) for prompt in prompts], device=DEVICE)
        last = torch.zeros(num_prompts, 1, dtype=torch.int64)  # nobody computes it
        self.token_ids = torch.cat((continuations, last), dim=1).to(DEVICE)
        shape = (num_prompts, 1 + num_steps, vocab_size)
        self.logits = torch.full(shape, torch.nan, device=DEVICE)

    def __call__(self, logits, metadata):
        places = (metadata.seeds, metadata.positions - self.prompt_lens[metadata.seeds])
        self.logits[places] = logits.float()
        return self.token_ids[places]


def our_logits(folder, mode, dtype, prompts, dictated):
    """The same logits from the engine: the prompts in one step, then one step per token."""
    num_tokens = dictated.token_ids.shape[1]
    llm = build(
        folder,
        mode,
        dtype=dtype,
        num_blocks=256,
        max_model_len=max(map(len, prompts)) + num_tokens,
        max_num_seqs=len(prompts),
        parts=Parts(sampler=lambda: dictated),
    )
    params = [
        SamplingParams(seed=i, max_tokens=num_tokens, ignore_eos=True, detokenize=False)
        for i in range(len(prompts))
    ]
    generate(llm, prompts, params)
    return dictated.logits


def errors(logits, exact):
    """Root mean square, of the prompts' logits and of the decode steps'."""
    squares = (logits - exact).double().square()
    return squares[:, 0].mean().sqrt().item(), squares[:, 1:].mean().sqrt().item()


@pytest.fixture
def folder():
    """A gigabyte, which pytest would keep."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def test_logits_of_a_qwen3_06b_are_as_close_to_float32_as_transformers(folder):
    save_random(QWEN3_06B, torch.bfloat16, folder)
    prompts = make_prompts(PROMPT_LENS)
    continuations = torch.tensor(make_prompts([NUM_STEPS] * len(prompts), seed=1))
    exact = logits_of_transformers(folder, torch.float32, prompts, continuations)
    assert exact.std() > 0.5, "flat logits would prove nothing"
    allowed = errors(logits_of_transformers(folder, torch.bfloat16, prompts, continuations), exact)

    for mode in TRITON_MODES:
        dictated = Dictated(prompts, continuations, exact.shape[-1])
        found = our_logits(folder, mode, torch.bfloat16, prompts, dictated)
        of_prompts, of_decodes = errors(found, exact)
        print(f"{mode}: {of_prompts:.4f} and {of_decodes:.4f}; transformers: {allowed}")
        assert of_prompts <= 2 * allowed[0]
        assert of_decodes <= 2 * allowed[1]
