"""`tell`: a story for a request, from a plot that fits it.

A telling that came out too short or too long, or left out something asked for, is told again.
"""

from __future__ import annotations

import random
import re

from tools.checkpoint.stories import (
    plots_days,
    plots_family,
    plots_feelings,
    plots_friends,
    plots_home,
    plots_outdoors,
    plots_quests,
    plots_seasons,
    plots_skills,
)
from tools.checkpoint.stories.cast import facts_of
from tools.checkpoint.stories.lexicon import HEROES, PLACES_BY_NOUN, THINGS_BY_NOUN, Place
from tools.checkpoint.stories.plots import Plot
from tools.checkpoint.stories.pools import POOLS
from tools.checkpoint.stories.request import Request, suits
from tools.checkpoint.stories.telling import Teller, parse_beats

MIN_WORDS, MAX_WORDS = 70, 190
NUM_EARLY_WORDS = 100
MAX_TRIES = 200
SHARE_OF_THE_END = 0.35
MODULES = (
    plots_days,
    plots_family,
    plots_feelings,
    plots_friends,
    plots_home,
    plots_outdoors,
    plots_quests,
    plots_seasons,
    plots_skills,
)
PLOTS = tuple(plot for module in MODULES for plot in module.PLOTS)


def tell(request: Request, rng: random.Random) -> str:
    """The story; it names hero and thing, and the request's adjective, name and place if given.

    Raises:
        ValueError: if the lexicon lacks the hero, the thing or the place, or no plot fits them.
    """
    return tell_with_plot(request, rng)[1]


def tell_with_plot(request: Request, rng: random.Random) -> tuple[str, str]:
    """The plot's name and the story, as `tell`."""
    plots = fitting_plots(request)
    weights = [plot.weight for plot in plots]
    for _ in range(MAX_TRIES):
        plot = rng.choices(plots, weights)[0]
        story = told(plot, request, rng)
        if keeps_to(request, story):
            return plot.name, story
    raise ValueError(f"no story in {MAX_TRIES} tries for {request}")


def fitting_plots(request: Request) -> list[Plot]:
    """The plots that can be told of the request's hero, thing and place."""
    for noun, known in (
        (request.hero, HEROES),
        (request.thing, THINGS_BY_NOUN),
        (request.place, [None, *PLACES_BY_NOUN]),
    ):
        if noun not in known:
            raise ValueError(f"{noun!r} is not in the lexicon: one of {', '.join(map(str, known))}")
    hero, thing = HEROES[request.hero], THINGS_BY_NOUN[request.thing]
    plots = [plot for plot in PLOTS if plot.fits(hero, thing) and places_for(plot, request)]
    if not plots:
        raise ValueError(f"no plot fits {request}")
    return plots


def places_for(plot: Plot, request: Request) -> list[Place]:
    """Where the plot can happen: the place asked for, or all that suit the thing."""
    if request.place is not None:
        places = [PLACES_BY_NOUN[request.place]]
    else:
        thing = THINGS_BY_NOUN[request.thing]
        places = [place for place in PLACES_BY_NOUN.values() if suits(thing, place)]
    return [place for place in places if plot.allows(place)]


def told(plot: Plot, request: Request, rng: random.Random) -> str:
    """One telling of the plot, good or not."""
    thing = THINGS_BY_NOUN[request.thing]
    place = rng.choice(places_for(plot, request))
    teller = Teller(rng, facts_of(request, thing, place, rng), POOLS)
    story = teller.story(parse_beats(plot.text))
    if rng.random() < SHARE_OF_THE_END:
        story += rng.choice((" ", "\n\n")) + "The end."
    return story


def keeps_to(request: Request, story: str) -> bool:
    """Whether the story has the right length and all that was asked for; hero and thing early."""
    if not MIN_WORDS <= len(story.split()) <= MAX_WORDS:
        return False
    start = " ".join(story.split()[:NUM_EARLY_WORDS])
    wanted = [request.adjective, request.name, request.place]
    return all(
        re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)
        for word, text in [
            (request.hero, start),
            (request.thing, start),
            *((word, story) for word in wanted if word),
        ]
    )
