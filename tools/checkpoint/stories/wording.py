"""Words that may stand for each other in every plot, so that a plot is written only once.

`loosen` rewrites a template's text before it is parsed: `"..." said {h}` may become
`"..." {h} said`, and a phrase of the table below any other phrase of its row.
"""

from __future__ import annotations

import re

from tools.checkpoint.stories.lexicon import table

_ROWS = """
All at once|Suddenly|All of a sudden
At last|In the end|Finally|At long last
Suddenly|All at once|All of a sudden
Just then|At that moment|Right then
Soon|Before long
came along|came by|passed by|came walking along
came by|stopped by|passed by
began to|started to
could not|couldn't
did not|didn't
do not|don't|do not|don't
Do not|Don't
can not|can't|cannot
was not|wasn't
I will|I'll
I am so|I'm so
It is|It's
That is|That's
Let us|Let's
very sad|so sad|terribly sad|really sad
again and again|over and over|over and over again
for a while|for some time|for a little while
for a moment|for a bit|for a second|for a little while
lovely|beautiful|wonderful
glad|happy|pleased
afraid|scared|frightened|afraid
in a small voice|in a low voice|very softly|quietly|in a tiny voice
every day|each day
Every morning|Each morning
the next morning|the next day|the morning after that
The next morning|The next day|The following day|The morning after
until the sun went down|until evening|until the sun was low|until it got dark|until supper time
until it got dark|until the stars came out|until evening|until it was time to go home
as good as new|like new|just like new|as fine as before
took a deep breath|breathed in deeply|took a long breath
at once|right away|straight away
From then on|From that day on|After that|From that time on
laughed and laughed|laughed until their sides hurt|laughed out loud
for a long time|for a long, long time|for quite a while
far away|a long way off
in a hurry|in a rush
one by one|one after the other
step by step|one step at a time|little by little
carefully|gently|with great care
Carefully|Gently|With great care
in the dark|in the darkness|in the dark night
"Oh no!"|"Oh dear!"|"Oh my!"|"Dear me!"|"Goodness!"
"Thank you!"|"Oh, thank you!"|"Thank you so much!"|"Many thanks!"
"Of course,"|"Sure,"|"Certainly,"
"Wait!"|"Wait a moment!"|"Hold on!"|"Stop!"
"Yes, please!"|"Oh yes, please!"|"I would love to!"
"What now?"|"What can we do now?"|"And now?"|"What shall I do now?"
thought and thought|thought hard|thought for a long time
had an idea|had a good idea|thought of something
looked closely|took a good look|bent down to look
looked sad|seemed sad|looked unhappy
"""
ROWS = [row.split("|") for row in table(_ROWS)]
SAME = {phrase: row for row in reversed(ROWS) for phrase in row[:1]}
PHRASE = re.compile("|".join(rf"(?<![\w]){re.escape(phrase)}(?![\w,])" for phrase in SAME))
SAID_WHO = re.compile(r'(?<=" )(said|asked|called|cried|whispered) (\{[hfep]\})')
HE_SAID = re.compile(r'(?<=" )\{(?:([fep])\.)?he\} (said|asked|called|whispered|thought)')


def loosen(template: str) -> str:
    """The template with choices in place of its fixed phrases."""
    template = SAID_WHO.sub(r"[\1 \2|\1 \2|\2 \1]", template)
    template = HE_SAID.sub(_he_said, template)
    return PHRASE.sub(lambda match: "[" + "|".join(SAME[match[0]]) + "]", template)


def _he_said(match: re.Match[str]) -> str:
    """`{he} said` -> `[{he} said|said {h}|{h} said]`, and so on for the others of the story."""
    who, verb = match.groups()
    name = f"{{{who or 'h'}}}"
    return f"[{match[0]}|{match[0]}|{verb} {name}|{name} {verb}]"
