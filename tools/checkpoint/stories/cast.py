"""The facts of one story: who is in it, where it happens, and how the thing is spoken of.

Slots of the hero: `meet` (at the first meeting), `h` (later), `hero` (the noun), `he`, `him`,
`his`, `himself`, `home`, `food`, `joy`, `ran`, `walked`, `hold`, `sound`. The friend is `f`, with
`f.meet`, `f.noun`, `f.name` and `f.joy`; `p` is of the family, with `p.noun`; `e` is somebody old,
with `e.meet`; `f2` and `f3` are two more. Each has pronouns such as `f.he`; a group is `all`. The
others' pronouns differ from the hero's, so that "he" and "she" never mix up two of a story.
The thing: `noun`, `full`, `a_thing`, `the_thing`, `it` (subject), `them` (object), `was`, `is`,
`its`, `this`, `use`, `used`, and `broke`, `mend`, `mended` of things that break.
The place: `at`, `to`, `near`, `spot`, `spot2`, `spot3`.
"""

from __future__ import annotations

import random
import re

from tools.checkpoint.stories.lexicon import HEROES, NAMES, PRONOUN_OF_NAME, Hero, Place, Thing
from tools.checkpoint.stories.request import Request

PRONOUNS = {"he": ("he", "him", "his", "himself"), "she": ("she", "her", "her", "herself")}
OLD_ONES = ("owl", "turtle", "badger", "goose", "donkey", "goat", "crow", "bear", "beaver", "swan")
OLD_PEOPLE = {"he": ("man", "sailor", "farmer"), "she": ("woman", "gardener", "baker")}
FAMILY = {
    "he": ("father", "grandpa", "uncle", "big brother"),
    "she": ("mother", "grandma", "aunt", "big sister"),
}
GROUPS = (
    "all the animals",
    "all the neighbors",
    "all {his} friends",
    "everyone",
    "the whole crowd",
)
FRIENDS = tuple(hero for hero in HEROES.values() if not hero.is_adult)
INTO = ("forest", "woods", "jungle", "garden", "castle", "workshop")
NO_HOUSE_NEAR = ("kitchen", "attic", "workshop")

LIGHT_HELP = (
    '{H} lit the {noun}, and the room was full of warm light. "Now it is not so bad," said {f}.'
)
OTHER_HELP = '{H} showed {f.him} the {noun}. "Do not think of the storm. Think of this," {he} said.'


def facts_of(request: Request, thing: Thing, place: Place, rng: random.Random) -> dict[str, str]:
    """The slots of a story about this request."""
    hero = HEROES[request.hero]
    name = request.name
    if name is None and rng.random() < 0.55:
        name = rng.choice(NAMES[rng.choice(hero.pronouns)])
    pronoun = PRONOUN_OF_NAME[name] if name else rng.choice(hero.pronouns)
    return (
        hero_facts(hero, name, pronoun, rng)
        | other_facts(hero, "she" if pronoun == "he" else "he", name, rng)
        | thing_facts(thing, request.adjective, rng)
        | place_facts(place, rng)
    )


def hero_facts(hero: Hero, name: str | None, pronoun: str, rng: random.Random) -> dict[str, str]:
    """Whom the story is about. Without a name the hero is always "the fox" or "the little fox"."""
    adjective = rng.choice(hero.adjectives)
    he, him, his, himself = PRONOUNS[pronoun]
    a_hero = f"a {adjective} {hero.noun}"
    called = rng.choice(("named", "called"))
    plain = f"the {hero.noun}"
    return {
        "meet": f"{a_hero} {called} {name}" if name else a_hero,
        "h": f"[{name}|{name}|{name}|{name}|{plain}]"
        if name
        else f"[{plain}|the {adjective} {hero.noun}]",
        "hero": hero.noun,
        "he": he,
        "him": him,
        "his": his,
        "himself": himself,
        "home": hero.home,
        "food": hero.food,
        "joy": rng.choice(hero.joys),
        "ran": hero.ran,
        "walked": hero.walked,
        "hold": hero.hold,
        "sound": rng.choice(hero.sounds),
        "all": rng.choice(GROUPS),
    }


def other_facts(
    hero: Hero, pronoun: str, hero_name: str | None, rng: random.Random
) -> dict[str, str]:
    """The friend, the one of the family and the old one, all with this pronoun."""
    friend = rng.choice([f for f in FRIENDS if f.noun != hero.noun and pronoun in f.pronouns])
    adjective = rng.choice(friend.adjectives)
    name = rng.choice([name for name in NAMES[pronoun] if name != hero_name])
    is_named = rng.random() < 0.5
    the_friend = f"the {friend.noun}"
    old_ones = [*OLD_ONES, *OLD_PEOPLE[pronoun] * 3]
    old = rng.choice([noun for noun in old_ones if noun not in (hero.noun, friend.noun)])
    family = rng.choice(FAMILY[pronoun])
    facts = {
        "f": name if is_named else the_friend,
        "f.meet": f"a {adjective} {friend.noun}" + (f" named {name}" if is_named else ""),
        "f.noun": friend.noun,
        "f.name": name,
        "f.joy": re.sub(r"\{hi(s|m)", r"{f.hi\1", rng.choice(friend.joys)),
        "e": f"[the old {old}|the {old}]",
        "e.meet": f"a [kind|gentle|wise|friendly|] old {old}",
        "p": f"{{his}} {'neighbor' if hero.is_adult else family}",
        "p.noun": "neighbor" if hero.is_adult else family,
    }
    extras = rng.sample([f.noun for f in FRIENDS if f.noun not in (hero.noun, friend.noun, old)], 2)
    facts |= {"f2": f"the {extras[0]}", "f3": f"the {extras[1]}"}
    he, him, his, himself = PRONOUNS[pronoun]
    for who in ("f", "e", "p", "f2", "f3"):
        facts |= {f"{who}.he": he, f"{who}.him": him, f"{who}.his": his}
    facts["f.himself"] = himself
    return facts


def thing_facts(thing: Thing, adjective: str | None, rng: random.Random) -> dict[str, str]:
    """How the thing is spoken of; it keeps one adjective, asked for or its own, or none."""
    if adjective is None and rng.random() < 0.5:
        adjective = rng.choice(thing.adjectives)
    full = f"{adjective} {thing.noun}" if adjective else thing.noun
    is_plural = thing.is_plural
    facts = {
        "noun": thing.noun,
        "full": full,
        "a_thing": f"{thing.lead} {full}",
        "the_thing": f"the [{thing.noun}|{thing.noun}|{full}]",
        "it": "they" if is_plural else "it",
        "them": "them" if is_plural else "it",
        "was": "were" if is_plural else "was",
        "is": "are" if is_plural else "is",
        "its": "they are" if is_plural else "it is",
        "this": "these" if is_plural else "this",
        "one": "ones" if is_plural else "one",
        "use": re.sub(r"(\w+)/(\w+)", r"\1", thing.use),
        "used": re.sub(r"(\w+)/(\w+)", r"\2", thing.use),
    }
    signal = f"held the {thing.noun} up high, so that its light shone far"
    facts["signal"] = signal if "light" in thing.tags else "{used}"
    facts["start_of"] = "a seed"
    facts["light_help"] = LIGHT_HELP if "light" in thing.tags else OTHER_HELP
    if thing.broke and thing.mend:
        facts |= {
            "broke": thing.broke,
            "mend": re.sub(r"(\w+)/(\w+)", r"\1", thing.mend),
            "mended": re.sub(r"(\w+)/(\w+)", r"\2", thing.mend),
        }
    return facts


def place_facts(place: Place, rng: random.Random) -> dict[str, str]:
    """Where it happens, with three different spots to look at."""
    spot, spot2, spot3 = rng.sample(place.spots, 3)
    the_place = "the " + place.at.split(" the ")[1]
    near = f"near {the_place}"
    if place.noun in NO_HOUSE_NEAR:
        near = f"in a house with a big {place.noun}"
    return {
        "at": place.at,
        "to": f"into {the_place}" if place.noun in INTO else f"to {the_place}",
        "near": near,
        "spot": spot,
        "spot2": spot2,
        "spot3": spot3,
    }
