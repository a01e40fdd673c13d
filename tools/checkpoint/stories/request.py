"""What a story is asked to be about, and the words in which a user asks for it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tools.checkpoint.stories.lexicon import (
    HEROES,
    NAMES,
    PLACES_BY_NOUN,
    THINGS_BY_NOUN,
    Hero,
    Place,
    Thing,
)
from tools.checkpoint.stories.telling import ARTICLE, capital


@dataclass(frozen=True)
class Request:
    """The hero, the thing and whatever else is wished for; `None` leaves it to the story."""

    hero: str
    thing: str
    adjective: str | None = None
    name: str | None = None
    place: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What tells one request from another: the held-out split goes by it."""
        return (self.hero, self.thing)


def suits(thing: Thing, place: Place) -> bool:
    """Whether the thing can be used there: nobody flies a kite in the kitchen."""
    return place.kind != "in" or "out" not in thing.tags


def random_request(rng: random.Random) -> Request:
    """Any hero with any thing; an adjective half the time, a name or a place less often."""
    hero = HEROES[rng.choice(list(HEROES))]
    thing = THINGS_BY_NOUN[rng.choice(list(THINGS_BY_NOUN))]
    place = rng.choice([place for place in PLACES_BY_NOUN.values() if suits(thing, place)])
    return Request(
        hero=hero.noun,
        thing=thing.noun,
        adjective=rng.choice(thing.adjectives) if rng.random() < 0.5 else None,
        name=random_name(hero, rng) if rng.random() < 0.35 else None,
        place=place.noun if rng.random() < 0.25 else None,
    )


def random_name(hero: Hero, rng: random.Random) -> str:
    """A name that the hero's pronoun allows."""
    return rng.choice(NAMES[rng.choice(hero.pronouns)])


PAIRED = (
    "{tell} {story} about {who} and {what}.",
    "{tell} {story} about {who} and {what}, please.",
    "Please {tell.low} {story} about {who} and {what}.",
    "Can you {tell.low} {story} about {who} and {what}?",
    "Could you please {tell.low} {story} about {who} and {what}?",
    "{tell} {story} with {who} and {what} in it.",
    "{tell} {story} that has {who} and {what} in it.",
    "I want {story} about {who} and {what}.",
    "I want to hear {story} about {who} and {what}.",
    "I would like {story} with {who} and {what}, please.",
    "I'd love {story} about {who} and {what}.",
    "Do you know {story} about {who} and {what}?",
    "Story please: {who} and {what}.",
    "A story about {who} and {what}, please!",
    "{Who} and {what}. Make {story} out of it.",
    "Make up {story} about {who} and {what}.",
    "Let's have {story} about {who} and {what}.",
    "What happens to {who} with {what}? {tell} {story}.",
    "My child wants {story} about {who} and {what}.",
    "It is bedtime. {tell} {story} about {who} and {what}.",
    "{tell} {story} in which {who} has something to do with {what}.",
    "Use {who} and {what} in {story}.",
    "Think of {story} with {who} and {what}.",
    "How about {story} with {who} and {what}?",
    "Will you {tell.low} {story} about {who} and {what}?",
    "{tell} {story}. It should be about {who} and {what}.",
    "Hello! {tell} {story} about {who} and {what}.",
    "May I have {story} about {who} and {what}?",
    "One story about {who} and {what}, please.",
    "{tell} {story} for a small child about {who} and {what}.",
)
TELLS = ("Tell me", "Write me", "Write", "Tell us", "Give me")
STORIES = (
    "a story",
    "a short story",
    "a little story",
    "a story",
    "a bedtime story",
    "a nice story",
)


def ask(request: Request, rng: random.Random) -> str:
    """The request as a user would put it: all that it names, and nothing else."""
    thing = THINGS_BY_NOUN[request.thing]
    what = " ".join(filter(None, (thing.lead, request.adjective, thing.noun)))
    who = f"a {request.hero}"
    if request.name:
        who += f" {rng.choice(('named', 'called'))} {request.name}"
    if request.place:
        who += f" {PLACES_BY_NOUN[request.place].at}"
    tell = rng.choice(TELLS)
    text = rng.choice(PAIRED)
    for slot, filling in (
        ("{tell}", tell),
        ("{tell.low}", tell.lower()),
        ("{story}", rng.choice(STORIES)),
        ("{who}", who),
        ("{Who}", capital(who)),
        ("{what}", what),
    ):
        text = text.replace(slot, filling)
    return ARTICLE.sub(r"\1n ", text)
