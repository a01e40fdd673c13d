"""The program that tells the training stories: what it promises of each story and of many."""

from __future__ import annotations

import random
import re

import pytest

from tools.checkpoint.stories import Request, ask, random_request, tell
from tools.checkpoint.stories.lexicon import HEROES, NAMES, PLACES_BY_NOUN, THINGS_BY_NOUN
from tools.checkpoint.stories.pools import POOLS
from tools.checkpoint.stories.request import PAIRED
from tools.checkpoint.stories.story import (
    MAX_WORDS,
    MIN_WORDS,
    PLOTS,
    fitting_plots,
    tell_with_plot,
)
from tools.checkpoint.stories.telling import Teller, UnknownSlotError, parse, parse_beats, tidy

VOWEL_SOUND = re.compile(r"[aeio]|u(?!ku|se|ni)", re.IGNORECASE)


def told_stories(count: int, seed: int) -> list[tuple[Request, str, str]]:
    """Requests with their plot's name and story."""
    rng = random.Random(seed)
    stories = []
    for _ in range(count):
        request = random_request(rng)
        stories.append((request, *tell_with_plot(request, rng)))
    return stories


@pytest.fixture(scope="module")
def stories() -> list[tuple[Request, str, str]]:
    return told_stories(2000, seed=7)


def has_word(text: str, word: str) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE) is not None


def test_same_seed_tells_same_story():
    first, again = told_stories(20, seed=3), told_stories(20, seed=3)
    assert first == again
    assert first != told_stories(20, seed=4)


def test_request_key_is_hero_and_thing():
    assert Request("dog", "kite", adjective="red", name="Pip", place="pond").key == ("dog", "kite")


def test_story_has_all_that_was_asked_for(stories):
    for request, _, story in stories:
        wanted = (request.hero, request.thing, request.adjective, request.name, request.place)
        missing = [word for word in wanted if word and not has_word(story, word)]
        assert not missing, f"{missing} missing in: {story}"


def test_no_slot_or_bracket_is_left(stories):
    for _, plot, story in stories:
        assert not re.search(r"[{}\[\]|~_*<>]|^:", story, re.MULTILINE), f"{plot}: {story}"


def test_story_keeps_to_the_length(stories):
    for _, _, story in stories:
        assert MIN_WORDS <= len(story.split()) <= MAX_WORDS


def test_every_paragraph_ends_like_a_sentence_and_starts_with_a_capital(stories):
    for _, plot, story in stories:
        for paragraph in story.split("\n\n"):
            assert re.search(r'[.!?]"?$', paragraph), f"{plot}: {paragraph!r}"
            assert re.match(r'"?[A-Z]', paragraph), f"{plot}: {paragraph!r}"


def test_sentences_start_with_a_capital(stories):
    for _, plot, story in stories:
        assert not re.search(r'[.] "?[a-z]', story), f"{plot}: {story}"


def test_quotes_are_balanced_in_every_paragraph(stories):
    for _, plot, story in stories:
        for paragraph in story.split("\n\n"):
            assert paragraph.count('"') % 2 == 0, f"{plot}: {paragraph}"


def test_spaces_and_marks_are_clean(stories):
    for _, plot, story in stories:
        assert not re.search(r"  | [.,!?]|\.\.|,\.|[.!?],|\b(\w+) \1\b(?<!had had)", story), (
            f"{plot}: {story}"
        )


def test_articles_agree_in_stories_and_requests(stories):
    rng = random.Random(1)
    for request, _, story in stories:
        for text in (story, ask(request, rng)):
            for article, word in re.findall(r"\b([Aa]n?) ([A-Za-z]+)", text):
                wants_an = VOWEL_SOUND.match(word) is not None
                assert (article.lower() == "an") == wants_an, f"{article} {word} in: {text}"


def test_hero_has_one_name_all_through(stories):
    """The names of a story are the asked one and at most one friend's."""
    names = {name for group in NAMES.values() for name in group}
    for request, plot, story in stories:
        if request.name is None:
            continue
        found = {word for word in re.findall(r"\b[A-Z][a-z]+\b", story) if word in names}
        assert request.name in found, f"{plot}: {found} in {story}"
        assert len(found) <= 2, f"{plot}: {found} in {story}"
        introduced = re.findall(rf"\b[Aa]n? \w+ {request.hero} (?:named|called) (\w+)", story)
        assert set(introduced) == {request.name}, f"{plot}: {introduced} in {story}"


def test_request_names_all_it_has_and_nothing_else():
    request = Request("owl", "umbrella", adjective="old", name="Pip", place="pond")
    text = ask(request, random.Random(0))
    assert re.search(r"an owl (named|called) Pip at the pond", text, re.IGNORECASE)
    assert "an old umbrella" in text
    plain = ask(Request("bear", "cake"), random.Random(0))
    assert re.search(r"\ba bear\b.*\ba cake\b", plain, re.IGNORECASE)


def test_every_plot_is_told(stories):
    assert {plot for _, plot, _ in stories} == {plot.name for plot in PLOTS}


def test_every_hero_with_every_thing_has_three_plots_or_more():
    for hero in HEROES:
        for thing in THINGS_BY_NOUN:
            assert len(fitting_plots(Request(hero, thing))) >= 3, f"{hero} and {thing}"


def test_every_thing_has_a_story_at_every_place_that_suits_it():
    rng = random.Random(2)
    for thing in THINGS_BY_NOUN.values():
        for place in PLACES_BY_NOUN.values():
            if place.kind != "in" or "out" not in thing.tags:
                assert has_word(
                    tell(Request("king", thing.noun, place=place.noun), rng), place.noun
                )


def test_unknown_hero_thing_and_place_are_refused():
    for request in (
        Request("car", "kite"),
        Request("dog", "moon"),
        Request("dog", "kite", place="x"),
    ):
        with pytest.raises(ValueError, match="is not in the lexicon"):
            tell(request, random.Random(0))


def test_stories_share_few_spans_of_three_words(stories):
    spans = []
    for _, _, story in stories[:200]:
        words = story.lower().split()
        spans += zip(words, words[1:], words[2:], strict=False)
    assert len(set(spans)) / len(spans) > 0.6


def test_sizes_of_lexicon_and_phrases():
    assert len([hero for hero in HEROES.values() if not hero.is_person]) >= 40
    assert len([hero for hero in HEROES.values() if hero.is_person]) >= 20
    assert len(THINGS_BY_NOUN) >= 120
    assert len(PLACES_BY_NOUN) >= 30
    assert sum(map(len, NAMES.values())) >= 60
    assert not set(NAMES["he"]) & set(NAMES["she"])
    assert len(PAIRED) >= 25
    assert len(PLOTS) >= 24
    assert len(POOLS["start_line"]) >= 20
    for plot in PLOTS:
        beats = [beat for beat in parse_beats(plot.text) if not beat.defines]
        assert len(beats) >= 7, plot.name
        assert sum(len(beat.lines) for beat in beats) >= 22, plot.name


def test_engine_fills_slots_choices_and_capitals():
    teller = Teller(random.Random(0), {"h": "the fox", "x": "[red|red]"}, {})
    assert teller.fill("{H} saw a {x} hat.") == "The fox saw a red hat."


def test_engine_refuses_an_unknown_slot():
    with pytest.raises(UnknownSlotError, match="'nobody'"):
        Teller(random.Random(0), {}, {}).fill("{nobody} came.")


@pytest.mark.parametrize("template", ["[a|b", "a]", "a|b", "{a b}", "}"])
def test_engine_refuses_a_malformed_template(template):
    with pytest.raises(ValueError, match=r"malformed|outside"):
        parse(template)


def test_engine_draws_a_pool_without_repeating():
    teller = Teller(random.Random(0), {}, {"p": ("one", "two", "three")})
    assert sorted(teller.fill("{p} {p} {p}").split()) == ["one", "three", "two"]


def test_let_keeps_its_columns_together():
    beats = parse_beats(":let a b\nx ~ 1\ny ~ 2\n\n{a}{b}.")
    for seed in range(10):
        assert Teller(random.Random(seed), {}, {}).story(beats) in ("X1.", "Y2.")


def test_tidy_sets_articles_and_capitals():
    assert tidy(["a owl ate a bun. it was good."]) == "An owl ate a bun. It was good."
    assert tidy(['"yes!" she said.']) == '"Yes!" she said.'
