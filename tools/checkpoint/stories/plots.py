"""What a plot is, and which requests it fits. The plots themselves stand in `plots_*.py`."""

from __future__ import annotations

from dataclasses import dataclass

from tools.checkpoint.stories.lexicon import Hero, Place, Thing

ANYWHERE = ("in", "out", "water")


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot in the notation of `telling.py`, and what it asks of hero, thing and place.

    Args:
        needs: the thing has at least one of these tags, if any are named.
        avoids: the thing has none of these tags.
        where: the kinds of place it can happen at.
        for_young: the hero is no grown-up person.
        weight: how often it is drawn, next to the others that fit.
    """

    name: str
    text: str
    needs: tuple[str, ...] = ()
    avoids: tuple[str, ...] = ()
    where: tuple[str, ...] = ANYWHERE
    for_young: bool = False
    weight: float = 1.0

    def fits(self, hero: Hero, thing: Thing) -> bool:
        """Whether the plot can be told of them."""
        has_needed = not self.needs or not thing.tags.isdisjoint(self.needs)
        is_allowed = thing.tags.isdisjoint(self.avoids)
        return has_needed and is_allowed and not (self.for_young and hero.is_adult)

    def allows(self, place: Place) -> bool:
        """Whether it can happen there."""
        return place.kind in self.where
