"""The engine: choosing phrasings, filling slots, setting capitals and articles.

A template is a sentence or more in which `[big|small|]` stands for one of its parts, drawn anew
each time, and `{slot}` for the text of that slot, itself a template; `{Slot}` gets a capital.
`a` becomes `an` by itself, and a letter after a full stop a capital. A plot is a text of beats with
a blank line between them; each line of a beat is one way to say it, and an indented line goes on
with the line before it. The first line of a beat may be

    :para                 the beat starts a new paragraph
    :maybe                the beat is left out half the time
    :let one two          no text: one line is drawn, whose columns (`a ~ b`) become the slots

This module knows no story and no word of the lexicon. Read `lexicon.py` next.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tools.checkpoint.stories.wording import loosen


class UnknownSlotError(ValueError):
    """A template names a slot that neither the facts nor the pools have."""


@dataclass(frozen=True)
class Slot:
    """`{name}` in a template."""

    name: str


@dataclass(frozen=True)
class Choice:
    """`[one|two]` in a template."""

    options: tuple[Parts, ...]


Parts = tuple["str | Slot | Choice", ...]
TOKEN = re.compile(r"\{([A-Za-z][\w.]*)\}|([\[\]|])|([^\[\]|{}]+)")


@cache
def parse(template: str) -> Parts:
    """The template as text, slots and choices.

    Raises:
        ValueError: for a bracket without its partner or a malformed slot.
    """
    template = loosen(template)
    stack: list[list[list[str | Slot | Choice]]] = [[[]]]
    position = 0
    for match in TOKEN.finditer(template):
        if match.start() != position:
            break
        position = match.end()
        slot, mark, text = match.groups()
        if mark == "[":
            stack.append([[]])
        elif mark == "|" and len(stack) > 1:
            stack[-1].append([])
        elif mark == "]" and len(stack) > 1:
            options = tuple(tuple(option) for option in stack.pop())
            stack[-1][-1].append(Choice(options))
        elif mark:
            raise ValueError(f"{mark!r} stands outside of brackets in {template!r}")
        else:
            stack[-1][-1].append(Slot(slot) if slot else text)
    if len(stack) > 1 or position != len(template):
        raise ValueError(f"malformed from character {position} on: {template!r}")
    return tuple(stack[0][0])


@dataclass(frozen=True)
class Beat:
    """One step of a plot: the ways to tell it, of which a story has one."""

    lines: tuple[str, ...]
    starts_paragraph: bool = False
    is_optional: bool = False
    defines: tuple[str, ...] = ()


@cache
def parse_beats(text: str) -> tuple[Beat, ...]:
    """The beats of a plot in the notation of this module's docstring.

    Raises:
        ValueError: for an unknown mark, or a `:let` line with too many or too few columns.
    """
    blocks = re.sub(r"\n +", " ", text).strip().split("\n\n")
    return tuple(_parse_beat(block.splitlines()) for block in blocks)


def _parse_beat(lines: list[str]) -> Beat:
    marks: list[str] = []
    if lines[0].startswith(":"):
        marks, lines = lines[0][1:].split(), lines[1:]
    if marks and marks[0] == "let":
        names = tuple(marks[1:])
        if any(line.count(" ~ ") != len(names) - 1 for line in lines):
            raise ValueError(f"each line needs {len(names)} columns: {lines}")
        return Beat(tuple(lines), defines=names)
    if not set(marks) <= {"para", "maybe"} or not lines:
        raise ValueError(f"unknown marks {marks} or no lines in a beat: {lines}")
    return Beat(tuple(lines), "para" in marks, "maybe" in marks)


class Teller:
    """Fills the templates of one story.

    Args:
        rng: the only source of chance.
        facts: slots that mean the same all through the story. Owned by the teller: `:let` adds.
        pools: slots with many lines; a line is not drawn twice in one story while others are left.
    """

    def __init__(
        self, rng: random.Random, facts: dict[str, str], pools: Mapping[str, Sequence[str]]
    ) -> None:
        self.rng = rng
        self.facts = facts
        self.pools = pools
        self.unused: dict[str, list[str]] = {}

    def fill(self, template: str) -> str:
        """The template's text, all slots filled and one option taken of each choice."""
        return "".join(self._render(part) for part in parse(template))

    def story(self, beats: Sequence[Beat]) -> str:
        """The beats as paragraphs with a blank line between them."""
        paragraphs: list[list[str]] = [[]]
        for beat in beats:
            if beat.defines:
                self._define(beat)
                continue
            if beat.starts_paragraph and paragraphs[-1]:
                paragraphs.append([])
            if beat.is_optional and self.rng.random() < 0.5:
                continue
            paragraphs[-1].append(self.fill(self.rng.choice(beat.lines)))
        return "\n\n".join(tidy(sentences) for sentences in paragraphs if any(sentences))

    def _define(self, beat: Beat) -> None:
        columns = self.rng.choice(beat.lines).split(" ~ ")
        for name, column in zip(beat.defines, columns, strict=True):
            self.facts[name] = self.fill(column.strip())

    def _render(self, part: str | Slot | Choice) -> str:
        if isinstance(part, str):
            return part
        if isinstance(part, Choice):
            return "".join(self._render(inner) for inner in self.rng.choice(part.options))
        name = part.name[0].lower() + part.name[1:]
        text = self.fill(self._look_up(name))
        return capital(text) if part.name[0].isupper() else text

    def _look_up(self, name: str) -> str:
        if name in self.facts:
            return self.facts[name]
        if name not in self.pools:
            raise UnknownSlotError(f"no slot {name!r}: neither a fact nor a pool of phrases")
        if not self.unused.get(name):
            self.unused[name] = list(self.pools[name])
        unused = self.unused[name]
        return unused.pop(self.rng.randrange(len(unused)))


def capital(text: str) -> str:
    """The text with its first letter, which may follow a quote, as a capital."""
    start = 1 if text.startswith('"') else 0
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :]


ARTICLE = re.compile(r"\b([Aa]) (?=[aeio]|u(?!ku|se|ni))")
SENTENCE_START = re.compile(r'((?:[.!?]|\.") "?)([a-z])')
QUOTE_THEN_SPEAKER = re.compile(
    r'\."(?= (?:(?:he|she|the [a-z ]+|[A-Z][a-z]+) )?(?:said|thought)\b)'
)
STOP_AFTER_QUOTE = re.compile(r'(?<=\w)"\.')


def tidy(sentences: Sequence[str]) -> str:
    """The sentences as one paragraph, with capitals, `an` and the marks at quotes set right.

    A sentence after `!"` or `?"` inside one line needs its own capital, since `"Yes!" she said`
    has none.
    """
    text = " ".join(capital(" ".join(sentence.split())) for sentence in sentences if sentence)
    text = ARTICLE.sub(r"\1n ", text)
    text = QUOTE_THEN_SPEAKER.sub(',"', text)
    text = STOP_AFTER_QUOTE.sub(r'."', text)
    return SENTENCE_START.sub(lambda match: match[1] + match[2].upper(), text)
