"""The lexicon: heroes, things, places and names, read from the tables of `lexicon_*.py`.

It knows which words go together, and no plot. Read `request.py` next, then `cast.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tools.checkpoint.stories.lexicon_heroes import ANIMALS, BODIES, HE_NAMES, PEOPLE, SHE_NAMES
from tools.checkpoint.stories.lexicon_places import PLACES
from tools.checkpoint.stories.lexicon_things import THINGS

HUMAN_JOYS = ("clapped {his} hands", "jumped up and down", "laughed out loud", "beamed")
HUMAN_SOUNDS = ("hooray", "oh my", "hello there", "what luck")


@dataclass(frozen=True)
class Hero:
    """Somebody a story can be about; the phrases may hold the slots `{his}` and `{himself}`."""

    noun: str
    adjectives: tuple[str, ...]
    home: str
    food: str
    joys: tuple[str, ...]
    ran: str
    walked: str
    sounds: tuple[str, ...]
    hold: str
    pronouns: tuple[str, ...] = ("he", "she")
    is_person: bool = False
    is_adult: bool = False


@dataclass(frozen=True)
class Thing:
    """Something a story can be about.

    `lead` is the article, `a` or `a loaf of`; `use` and `mend` hold verbs as `fly/flew`; what the
    stories never break has `None` for `broke` and `mend`.
    """

    noun: str
    lead: str
    is_plural: bool
    adjectives: tuple[str, ...]
    tags: frozenset[str]
    use: str
    broke: str | None
    mend: str | None


@dataclass(frozen=True)
class Place:
    """Where a story happens: `at` reads "by the river"; `kind` is `in`, `out` or `water`."""

    noun: str
    at: str
    kind: str
    spots: tuple[str, ...]


def table(text: str) -> Iterator[str]:
    """The rows of a table; an indented line belongs to the row before it."""
    yield from re.sub(r"\n +", " ", text).strip().splitlines()


def words(text: str) -> tuple[str, ...]:
    """`red, blue` -> `("red", "blue")`."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def read_animals() -> Iterator[Hero]:
    """The animals of the table, each with what the others of its body hold things with."""
    hold = ""
    for row in table(ANIMALS):
        if row.startswith("# "):
            hold = BODIES[row[2:]]
            continue
        noun, rest = row.split(":", 1)
        adjectives, home, food, joy, moves, sound = (part.strip() for part in rest.split(";"))
        ran, walked = words(moves)
        yield Hero(noun, words(adjectives), home, food, (joy,), ran, walked, (sound,), hold)


def read_people() -> Iterator[Hero]:
    """The people of the table."""
    for row in table(PEOPLE):
        noun, kind, rest = row.split(":", 2)
        pronoun, age = kind.split()
        adjectives, home, food = (part.strip() for part in rest.split(";"))
        yield Hero(
            noun,
            words(adjectives),
            home,
            food,
            HUMAN_JOYS,
            "ran",
            "walked",
            HUMAN_SOUNDS,
            BODIES["hands"],
            pronouns=("he", "she") if pronoun == "any" else (pronoun,),
            is_person=True,
            is_adult=age == "adult",
        )


def read_things() -> Iterator[Thing]:
    """The things of the table; what can be mended also has the tag `breaks`."""
    tags: tuple[str, ...] = ()
    common: tuple[str, ...] = ()
    for row in table(THINGS):
        if row.startswith("# "):
            left, right = row[2:].split(";")
            tags, common = tuple(left.split()), words(right)
            continue
        name, *columns = (part.strip() for part in row.split(":", 1))
        parts = [part.strip() for part in columns[0].split(";")] + ["", ""]
        match = re.fullmatch(r"(?:<(.+)> )?(\*?)(.+)", name)
        assert match is not None, "the pattern takes any name"
        lead, star, noun = match.groups()
        yield Thing(
            noun=noun,
            lead=lead or ("a pair of" if star else "a"),
            is_plural=bool(star),
            adjectives=tuple(
                word for word in dict.fromkeys(common + words(parts[0])) if word not in noun
            ),
            tags=frozenset(tags) | ({"breaks"} if parts[3] else set()),
            use=parts[1],
            broke=parts[2] or None,
            mend=parts[3] or None,
        )


def read_places() -> Iterator[Place]:
    """The places of the table."""
    for row in table(PLACES):
        at, rest = row.split(":")
        kind, spots = rest.split(";")
        yield Place(at.split(" the ")[1], at, kind.strip(), words(spots))


HEROES = {hero.noun: hero for hero in (*read_animals(), *read_people())}

THINGS_BY_NOUN = {thing.noun: thing for thing in read_things()}
PLACES_BY_NOUN = {place.noun: place for place in read_places()}
NAMES = {"she": tuple(SHE_NAMES.split()), "he": tuple(HE_NAMES.split())}
PRONOUN_OF_NAME = {name: pronoun for pronoun, names in NAMES.items() for name in names}
