"""Write the byte-level tokenizer of the shipped dummy model: 256 bytes and three special tokens.

A token's id is its byte's value; the special tokens follow. Any text can be encoded and any mix
of bytes decoded, so random weights always print something.

    python tools/make_byte_tokenizer.py minivllm/assets/dummy-qwen3
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

CHAT_TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def byte_characters() -> list[str]:
    """The printable character that byte-level BPE writes for each byte, in byte order.

    Printable Latin-1 characters stand for themselves; the other 68 bytes get the characters from
    256 on: 32 (space) -> "Ġ".
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    codes = {byte: byte for byte in printable}
    codes |= {byte: 256 + index for index, byte in enumerate(others)}
    return [chr(codes[byte]) for byte in range(256)]


def make_tokenizer() -> Tokenizer:
    """A BPE tokenizer that has no merges, so that each byte stays a token."""
    vocab = {character: byte for byte, character in enumerate(byte_characters())}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(text, special=True, normalized=False) for text in SPECIAL_TOKENS]
    tokenizer.add_special_tokens(special)
    return tokenizer


def main(folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja into `folder`."""
    make_tokenizer().save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2048,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
