"""JsonFields: a JSON object whose fields are read with their types checked.

Every `config.json` is someone else's file: a number can be a string, a size can be zero, a key can
be missing. The readers here give back the value, or raise an error that names the file, the field
and what it holds. They know nothing of models. Next file: `minivllm/models/hf_config.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minivllm.checks import is_int, is_number
from minivllm.errors import CheckpointError


def read_json_object(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds.

    Raises:
        CheckpointError: The file cannot be read, or does not hold a JSON object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist: is this the folder of a model?") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:  # bad JSON, bad UTF-8, or nested without end
        raise CheckpointError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds a {type(value).__name__}, not a JSON object")
    return value


@dataclass(frozen=True)
class JsonFields:
    """A JSON object and the name it has in error messages.

    Attributes:
        values: The object as it was read.
        where: What the messages call it, such as "config.json (Qwen3ForCausalLM)".
    """

    values: Mapping[str, Any]
    where: str

    def error(self, name: str, problem: str) -> CheckpointError:
        """The error to raise about field `name`, with its value."""
        return CheckpointError(f"{self.where}: {name}={self.values.get(name)!r} {problem}")

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.values.get(name) is not None

    def integer(self, name: str, minimum: int = 1) -> int:
        """A whole number.

        Raises:
            CheckpointError: It is missing, of another type, or below `minimum`.
        """
        value = self._required(name)
        if not is_int(value) or value < minimum:
            raise self.error(name, f"must be a whole number of at least {minimum}")
        return value

    def number(self, name: str) -> float:
        """A number above zero.

        Raises:
            CheckpointError: It is missing, not a finite number, or not above zero.
        """
        value = self._required(name)
        if not is_number(value) or value <= 0:
            raise self.error(name, "must be a number above 0")
        return float(value)

    def flag(self, name: str) -> bool:
        """True or false; null counts as false.

        Raises:
            CheckpointError: It is of another type.
        """
        value = self.values.get(name)
        if not isinstance(value, bool | None):
            raise self.error(name, "must be true or false")
        return bool(value)

    def token_ids(self, name: str) -> tuple[int, ...]:
        """A token id or a list of them; empty when the field is null or missing.

        Raises:
            CheckpointError: It holds something else.
        """
        value = self.values.get(name)
        ids = value if isinstance(value, list) else [] if value is None else [value]
        if not all(is_int(item) and item >= 0 for item in ids):
            raise self.error(name, "must be a token id, a list of token ids, or null")
        return tuple(ids)

    def section(self, name: str) -> JsonFields:
        """The object inside field `name`; an empty one when the field is null or missing.

        Raises:
            CheckpointError: It is not an object.
        """
        value = self.values.get(name)
        if not isinstance(value, dict | None):
            raise self.error(name, "must be an object or null")
        return JsonFields(value or {}, f"{self.where}, {name}")

    def _required(self, name: str) -> Any:
        if name not in self.values:
            raise CheckpointError(f"{self.where}: {name} is missing")
        return self.values[name]
