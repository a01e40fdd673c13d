"""Stage 5, export: the trained weights as a Hugging Face folder in bfloat16.

Next file to read: `evaluate.py`, which judges what this stage wrote, not what was trained.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, GenerationConfig, Qwen3Config, Qwen3ForCausalLM

from tools.checkpoint.common import END_OF_TEXT, TURN_END, WORK, write_json
from tools.checkpoint.corpus import TOKENIZER
from tools.checkpoint.train import CONFIG, STATE

EXPORTED = WORK / "export"
_ONLY_IN_NEW_VERSIONS = ("backend", "is_local", "local_files_only")


def export(state_path: Path = STATE, folder: Path = EXPORTED) -> None:
    """Write config, weights, tokenizer and generation config into `folder`."""
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    end_ids = [tokenizer.convert_tokens_to_ids(token) for token in (TURN_END, END_OF_TEXT)]
    assert end_ids == [CONFIG["eos_token_id"], CONFIG["pad_token_id"]], "as the model was trained"

    model: Any = Qwen3ForCausalLM(Qwen3Config(**CONFIG))
    model.load_state_dict(torch.load(state_path, map_location="cpu", weights_only=True)["model"])
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=0.7,
        top_p=0.95,
        eos_token_id=end_ids,
        pad_token_id=CONFIG["pad_token_id"],
    )
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings = {key: value for key, value in settings.items() if key not in _ONLY_IN_NEW_VERSIONS}
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"  # its name in every version
    write_json(folder / "tokenizer_config.json", settings)
    size = sum(file.stat().st_size for file in folder.iterdir())
    num_parameters = sum(p.numel() for p in model.parameters())
    print(f"{num_parameters:,} parameters, {size / 1e6:.1f} MB in {folder}")
