"""Makes exercise files from solution files: what the learner is to write is taken out.

Knows nothing of what the exercises are about. Next file to read: `build.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_BEGIN, _END = "# SOLUTION BEGIN", "# SOLUTION END"
_UNUSED = "  # noqa: F401"  # on the import that only the exercise needs


def blank_solution(source: str, chapter: str) -> str:
    """The exercise file of a solution file.

    Each marked region becomes one line that raises, named after the function around it, after the
    class in `snake_case`, or after what stands behind `SOLUTION BEGIN`:

        # SOLUTION BEGIN
        return -(-a // b)             ->      raise ExerciseNotStarted("ch00.divide")
        # SOLUTION END

    Args:
        source: The text of the solution file.
        chapter: The first half of an exercise's id, such as "ch00".

    Raises:
        ValueError: A region does not end, or does not begin, or stands in no function.
    """
    lines: list[str] = []
    name, in_region = None, False
    for number, line in enumerate(source.splitlines(), start=1):
        if match := re.match(r"(?:async )?(def|class) (\w+)", line):
            name = _snake_case(match[2]) if match[1] == "class" else match[2]
        marker, _, given = line.strip().partition(f"{_BEGIN} ")
        if line.strip() == _BEGIN or given:
            if in_region or name is None:
                raise ValueError(f"line {number}: {_BEGIN} inside a region, or in no function")
            indent = line[: line.index("#")]
            lines.append(f'{indent}raise ExerciseNotStarted("{chapter}.{given or name}")')
            in_region = True
        elif marker == _END:
            if not in_region:
                raise ValueError(f"line {number}: {_END} without {_BEGIN}")
            in_region = False
        elif not in_region:
            lines.append(line)
    if in_region:
        raise ValueError(f"{_BEGIN} without {_END}")
    return "\n".join(lines).replace(_UNUSED, "") + "\n"


def _snake_case(name: str) -> str:
    """FreeQueue -> free_queue."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def stubs(root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """Each exercise file, and its text as it is shipped."""
    for solution in sorted((root / "solutions").glob("ch*.py")):
        chapter = solution.name.partition("_")[0]
        text = blank_solution(solution.read_text(encoding="utf-8"), chapter)
        yield root / "exercises" / solution.name, text


def build_exercises(root: Path = ROOT) -> list[Path]:
    """Write exercises/ from solutions/, over what is there; gives the files written."""
    written = []
    for path, text in stubs(root):
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
