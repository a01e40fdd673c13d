"""Stage 2, filter: from all continuations the few that are worth learning from.

Each rule is one small function that says whether a continuation passes; the first that fails is
counted against it, and the counts are kept in `filtered.report.json`. Of a request's continuations
that pass, the best one stays: the likeliest under the model that wrote it, with an advantage for
those that come to an end by themselves. Last, stories that share too much with an earlier one go.

Next file to read: `corpus.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tools.checkpoint.common import WORK, read_records, write_json, write_records
from tools.checkpoint.generate import SHARDS, sentences_of

FILTERED = WORK / "filtered.jsonl.gz"

MIN_WORDS, MAX_WORDS = 20, 70
MIN_DISTINCT_3 = 0.93
MAX_SENTENCE_OVERLAP = 0.5
LOGPROBS = (-1.5, -0.35)  # nats per token: below it rambles, above it recites
EVERYDAY = 60  # a word that stands in so many continuations is no slip of the model
MAX_SEEN_SHINGLES = 0.25

_META = re.compile(
    r"\b(stor(y|ies)|tales?|morals?|lessons?|readers?|examples?|imagine|chapters?|title|scenario|"
    r"user|assistant|author|narrator|conclusion|reminder|symbol|characters?|fable)\b",
    re.IGNORECASE,
)
_UNFIT = re.compile(
    r"\b(kill|die|dead|death|blood|war|wars|gun|gods?|devil|demon|ghost|wine|beer|drunk|hell|sex|"
    r"naked|corpse|murder|weapon|sword|prison|slave|money|dollars?|doctor|cancer|ill|sick|hate|"
    r"hated|evil|wife|husband|married|soul|pain|killed|died|dying|attack(ed)?|shot)\b",
    re.IGNORECASE,
)
_TYPEWRITER = str.maketrans("\u201c\u201d\u2018\u2019\u2013\u2014", "\"\"''--")
_QUOTED = re.compile(r'"[^"]*"')
_FIRST_PERSON = re.compile(r"\b(I|me|my|mine|we|us|our|ours|you|your)\b", re.IGNORECASE)
_PRESENT = re.compile(r"\b(is|are|am|has|does|do|will|can|goes|says|wants|looks)\b", re.I)
_HE, _SHE = re.compile(r"\b(he|him|his)\b", re.IGNORECASE), re.compile(r"\b(she|hers?)\b", re.I)
_ENDING = re.compile(
    r"\b(happy|happily|ever after|from that day|smiled|home|asleep|friends|together|the end|"
    r"laughed|hug|hugged|proud|thank)\b",
    re.IGNORECASE,
)
_GREETINGS = {
    "I",
    "I'm",
    "I'll",
    "Mom",
    "Dad",
    "Mother",
    "Father",
    "Grandma",
    "Grandpa",
    "Mr",
    "Mrs",
}


@dataclass(frozen=True)
class Candidate:
    """A continuation beside the request and the opening that it goes on from."""

    hero: str
    thing: str
    opening: str
    text: str
    logprob: float
    finished: bool
    everyday: frozenset[str]  # words that count as known, in lower case

    @property
    def told(self) -> str:
        """What the narrator says: the text without direct speech."""
        return _QUOTED.sub(" ", self.text)


def words_of(text: str) -> list[str]:
    """The words of a text, with apostrophes, as written."""
    return re.findall(r"[A-Za-z]+(?:'[a-z]+)?", text)


def tidy(text: str, finished: bool) -> str:
    """Plain quotes and spaces; what was cut off in mid-sentence goes back to the last full stop."""
    text = text.translate(_TYPEWRITER)
    paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n|\n", text)]
    paragraphs = [p for p in paragraphs if p]
    if paragraphs and not finished:
        paragraphs[-1] = " ".join(sentences_of(paragraphs[-1]))
    return "\n\n".join(p for p in paragraphs if p)


def is_plain(c: Candidate) -> bool:
    """Only letters and the punctuation of a story: no digits, lists, markup or other scripts."""
    return re.fullmatch(r"[A-Za-z ,.!?'\"\n-]*", c.text) is not None


def has_right_length(c: Candidate) -> bool:
    """Neither a remark nor a ramble."""
    return MIN_WORDS <= len(words_of(c.text)) <= MAX_WORDS


def ends_a_sentence(c: Candidate) -> bool:
    """The last sentence is complete, and no question."""
    return re.search(r"[.!]\"?$", c.text) is not None


def goes_on_about_both(c: Candidate) -> bool:
    """The thing comes back by its noun, the hero by noun or name."""
    heroes = {c.hero}
    for sentence in sentences_of(_QUOTED.sub(" ", c.opening)):  # a name has a capital anywhere
        heroes |= {word for word in words_of(sentence)[1:] if word[0].isupper()}
    words = set(words_of(c.text))
    return c.thing.split()[-1] in words and bool(heroes & words)


def brings_in_nobody(c: Candidate) -> bool:
    """No name that the opening does not have: a model that loses the thread changes names first."""
    known = set(words_of(c.opening)) | _GREETINGS
    for sentence in (s for p in c.text.split("\n\n") for s in sentences_of(p)):
        first, *others = words_of(sentence) or [""]
        quoted_starts = set(re.findall(r"\"([A-Z][a-z']*)", sentence))
        for word in others:
            if word[0].isupper() and word not in known and word not in quoted_starts:
                return False
        starts = {first, *quoted_starts} - known
        if any(word.lower() not in c.everyday for word in starts if word):
            return False
    return True


def keeps_its_pronoun(c: Candidate) -> bool:
    """If the opening has only he or only she, so has the rest."""
    he, she = _HE.search(c.opening), _SHE.search(c.opening)
    if he and not she:
        return not _SHE.search(c.text)
    if she and not he:
        return not _HE.search(c.text)
    return True


def is_told_in_the_past(c: Candidate) -> bool:
    """The narrator is nobody in the story, and tells what happened."""
    return not _FIRST_PERSON.search(c.told) and not _PRESENT.search(c.told)


def uses_everyday_words(c: Candidate) -> bool:
    """No word that the model seldom writes: those are slips more often than not."""
    names = set(words_of(c.opening))
    return all(word.lower() in c.everyday or word in names for word in words_of(c.text))


def does_not_repeat_itself(c: Candidate) -> bool:
    """Few trigrams come twice, and no two sentences say nearly the same."""
    words = [word.lower() for word in words_of(c.opening + " " + c.text)]
    trigrams = list(zip(words, words[1:], words[2:], strict=False))
    if len(set(trigrams)) < MIN_DISTINCT_3 * len(trigrams):
        return False
    sentences = [set(words_of(s.lower())) for p in c.text.split("\n\n") for s in sentences_of(p)]
    return all(
        len(a & b) <= MAX_SENTENCE_OVERLAP * len(a | b)
        for i, a in enumerate(sentences)
        for b in sentences[:i]
        if len(a) > 3 and len(b) > 3
    )


def is_likely(c: Candidate) -> bool:
    """The mean log-probability per token lies in the band of plain prose."""
    return LOGPROBS[0] <= c.logprob <= LOGPROBS[1]


RULES: dict[str, Callable[[Candidate], bool]] = {
    "length": has_right_length,
    "plain characters": is_plain,
    "finished sentence": ends_a_sentence,
    "both words again": goes_on_about_both,
    "no word about stories": lambda c: not _META.search(c.text),
    "fit for children": lambda c: not _UNFIT.search(c.text),
    "quotes closed": lambda c: all(p.count('"') % 2 == 0 for p in c.text.split("\n\n")),
    "past tense, third person": is_told_in_the_past,
    "same pronoun": keeps_its_pronoun,
    "no repetition": does_not_repeat_itself,
    "likelihood": is_likely,
    "everyday words": uses_everyday_words,
    "no new name": brings_in_nobody,
}


def first_rule_broken(candidate: Candidate) -> str | None:
    """The name of the first rule that `candidate` breaks, or `None` if it passes all."""
    return next((name for name, passes in RULES.items() if not passes(candidate)), None)


def score(candidate: Candidate) -> float:
    """Nats per token, and a bonus for a story that ends by itself or sounds like an ending."""
    last = candidate.text.rpartition("\n\n")[2]
    sounds_like_an_ending = bool(_ENDING.search(sentences_of(last)[-1] if last else ""))
    return candidate.logprob + 0.2 * candidate.finished + 0.3 * sounds_like_an_ending


def everyday_words(records: Iterable[dict[str, Any]]) -> frozenset[str]:
    """The words that stand in at least `EVERYDAY` continuations."""
    counts: Counter[str] = Counter()
    for record in records:
        for continuation in record["continuations"]:
            counts.update(set(words_of(continuation["text"].lower())))
    return frozenset(word for word, count in counts.items() if count >= EVERYDAY)


def best_of(
    record: dict[str, Any], everyday: frozenset[str], counts: Counter[str]
) -> Candidate | None:
    """A request's best continuation that passes every rule; `counts` gains what became of all."""
    best = None
    for raw in record["continuations"]:
        text = tidy(raw["text"], raw["finished"])
        request = record["request"]
        candidate = Candidate(
            request["hero"], request["thing"], record["opening"], text, raw["logprob"],
            raw["finished"], everyday,
        )  # fmt: skip
        broken = first_rule_broken(candidate)
        counts[broken or "passed"] += 1
        if broken is None and (best is None or score(candidate) > score(best)):
            best = candidate
    return best


def without_near_duplicates(stories: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Leave out a story of whose five-word spans too many stand in those before it."""
    seen: set[tuple[str, ...]] = set()
    for story in stories:
        words = words_of(story["continuation"].lower())
        shingles = {tuple(words[i : i + 5]) for i in range(len(words) - 4)}
        if len(shingles & seen) <= MAX_SEEN_SHINGLES * len(shingles):
            seen |= shingles
            yield story


def filter_stories() -> None:
    """Write the stories that stay to `filtered.jsonl.gz`, and the counts beside it."""
    shards = sorted(SHARDS.glob("*.jsonl.gz"))
    everyday = everyday_words(read_records(*shards))
    counts: Counter[str] = Counter()
    num_requests = 0
    chosen = []
    for record in read_records(*shards):
        num_requests += 1
        if best := best_of(record, everyday, counts):
            chosen.append({
                "hero": best.hero,
                "thing": best.thing,
                "ask": record["ask"],
                "opening": best.opening,
                "continuation": best.text,
                "score": round(score(best), 4),
            })  # fmt: skip
    chosen.sort(key=lambda story: -story["score"])
    num_kept = write_records(FILTERED, without_near_duplicates(chosen))
    report = {
        "shards": len(shards),
        "requests": num_requests,
        "continuations": sum(counts.values()),
        "everyday words": len(everyday),
        "first rule broken": {name: counts[name] for name in (*RULES, "passed")},
        "best of their request": len(chosen),
        "kept, without near-duplicates": num_kept,
    }
    write_json(WORK / "filtered.report.json", report)
    print(report)
