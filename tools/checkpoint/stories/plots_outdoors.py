"""Plots in the open air: a tree, a race, a boat, a rescue."""

from __future__ import annotations

from tools.checkpoint.stories.plots import Plot

TREE = """
{start} {He} had {a_thing}.
{start} {Day}, {he} took {his} {full} {to}.
"Look at my {full}!" said {meet}. {He} was so proud of {them}.
{start} {He} had just got {a_thing}, and {he} could not wait to [try|show] {them}.

{Day}, {he} went {to} with {his} {noun}.
{He} {ran} {to} to play.
{At}, the sun was shining and a light wind blew.

:let why
a [strong|sudden|big] wind came and took the {noun} away
a gust of wind pulled the {noun} up and away
the wind picked up the {noun} and blew {them} high
whoosh, went the wind, and off flew the {noun}

:para
But then {why}. Up, up, up {it} went, right into a [tall|big|high] tree.
All at once, {why}. {It} landed in the top of a tree and stuck there.
Then {why}. "Stop!" called {h}. But {it} got stuck in a tree.
Suddenly {why}. The {noun} hung in a tree, far too high to reach.

{sad}
{H} [stretched|jumped] as high as {he} could. It was no use.
"How will I ever get {them} down?" [asked|said] {h}.
{H} threw a pine cone at it. {He} missed. {He} threw another. {He} missed again.
{H} tried to climb up, but {he} slid down again, bump.
{H} shook the tree. A leaf came down, but the {noun} did not.

:let idea doing
a long stick ~ pushed the {noun} with a long stick until it moved
a ladder ~ climbed the ladder, one step at a time, and reached out
a rope ~ threw a rope over the branch and shook it hard
a tall box ~ stood on a tall box and reached up as far as {f.he} could
strong arms ~ held on to the trunk and shook the tree, once, twice, three times
a broom ~ pushed the {noun} with a broom, a little to the left, a little to the right

:para
{F.meet} heard {him}. "Do not cry," said {f}. "We need {idea}."
Then along came {f.meet}. "I see what is wrong," {f.he} said. "What you need is {idea}."
"May I help?" asked {f.meet}. "I think {idea} would do it."
{H} asked {f.meet} for help. {F} looked up and thought. "I know," {f.he} said. "{Idea}!"

{F} {doing}. [Crack!|Rustle, rustle!|Swish!|] Down came the {noun}!
So {f} {doing}. And then, slowly, the {noun} came down.
{H} held {his} breath as {f} {doing}. And down came the {noun}, as light as a leaf.
It was not easy. {F} {doing}. "It moves, it moves!" called {h}. And then it fell.
{F} {doing}, while {h} held {f.his} coat. Plop! The {noun} fell right at their feet.

{happy}
{thanks}
{happy} {thanks}
{thanks} {happy}

:maybe
After that they played with the {noun} together, far away from the tree.
"Next time, I will hold on tight," said {h}.
"Now you can try it," said {h}. And {f} had a turn too.
{H} learned that [it is fine|it is good] to ask for help.

:maybe
{end}
"""

RACE = """
{start} {Day}, there was a race {at}. The prize was {a_thing}.
{start} {Day}, a sign hung {at}: "Big race today! The winner gets {a_thing}."
{start} {He} wished for {a_thing}. And {day} there was a race {at}, and the prize was just that.
"A race!" said {meet}. "And the prize is {a_thing}!"

{F.meet} was in the race too. "I am the fastest," [said|bragged] {f}.
"You will never win," said {f.meet}. "I am much faster."
{F.meet} stood at the start. {F.he} [stretched|smiled] and said, "I will win for sure."

:maybe
{H} was not sure. But {he} wanted to try.
"I will do my best," said {h}.
"I am a bit afraid," said {h}. "But I will try."

:para
"Ready, steady, go!" Off they went. {F} was soon far ahead.
A flag went down, and the race began. {F} flew past {h} and was gone.
Everyone shouted, "Go, go, go!" After ten steps {f} was in front, and {h} had dust in {his} eyes.
{F} was off before {h} had even lifted a foot. [How fast {f.he} was!|]
One, two, three, go! {F} shot off like the wind. {H} came behind.
The whistle blew. {F} was in front, and {h} was last.

:let trouble back
{f} was so sure of winning that {f.he} sat down for a nap ~ {H} did not stop. Step by step, {he}
    passed {f} and was first
{f} looked back to laugh and fell into a puddle ~ {H} stopped. "Give me your hand," {he} said,
    and pulled {f.him} out. They crossed the line side by side
{f} hurt {f.his} foot and had to stop ~ {H} turned back. "Lean on me," {he} said. They came in
    last, but they came in together
{f} took the wrong path ~ {H} called, "Come back! This way!" Then they ran side by side, and
    both were first
{f} ran too fast at the start and had no breath left ~ {H} kept on, not too fast and not too
    slow, and got there first
{f} stopped to eat some berries ~ {H} kept on and on, and {he} came in first

But then something happened. {Trouble}.
Halfway there, {trouble}.
But a race is not over until it is over. {Trouble}.
Then everyone gasped. {Trouble}.
Near the end, {trouble}.

{back}.
{back}. [How {all} cheered!|]

:para
"Well done!" said {e.meet} and gave {him} the {noun}.
The prize went to {h}: {a_thing}! {happy}
"And here is the prize," said {e.meet}. {H} held the {noun} high for all to see.
{All} clapped as {h} was handed the {full}. {happy}
"For a good heart and a good race," said {e.meet}, and {h} got the {noun}.
{H} was given the {full}. {happy}

"Well run," said {f}. ["I should not have bragged."|"You did it."] "[Shall we share {them}?|Come
    and look at {them} with me,]" said {h}.
{F} was [a little sad|very quiet]. "We can both have the {noun}," said {h}. "One day you, one
    day me."
"Will you race with me again?" asked {f}. "Any time," said {h}.

:maybe
It is not only fast feet that win.
Slow and steady is a good way to go.
And {f} never bragged again.

:maybe
{end}
"""

BOAT = """
{start} {Day}, {he} took {a_thing} {to}.
{start} {He} had {a_thing}, and {day} {he} carried {them} {to}.
{start} {Day}, {he} stood {at} with {a_thing}. "Let us see how it floats," {he} said.

{H} set {them} on the water. The {noun} floated [very well|like a duck|like a leaf].
The water was [still|smooth|blue|calm]. {H} put the {noun} in, and it floated.

:maybe
"Sail, little {noun}, sail!" {he} sang.
A fish [looked up|jumped] and a [dragonfly|gull] flew by.

:para
But the wind came up and blew the {noun} away from the shore.
Then a wave came and carried the {noun} off. Further and further it went.
{H} looked away for a moment. When {he} looked back, the {noun} was drifting away.

{sad}
"Come back!" called {h}. But the {noun} did not come back.
{He} could not reach it any more.

:let how
took a long branch and pulled the {noun} close
swam out and pushed the {noun} back with {f.his} nose
tied a stone to a string, threw it past the {noun}, and pulled it in
made little waves with {f.his} feet until the {noun} came back
waited on the other side and caught the {noun} there
threw out a net and drew the {noun} in

:para
{F.meet} was [sitting|resting] near the water. "Wait, I can get it," {f.he} said.
"Do not worry," said {f.meet}. "I know this water."
{F.meet} had seen it all. "Leave it to me," said {f}.

{F} {how}.
Then {f} {how}. "Here you are!"

{happy} {thanks}
{thanks}
{happy}

:maybe
Then {h} tied a long string to the {noun}. Now it could float, but it could not run away.
"We should tie a string to it," said {f}. And that is what they did.
The two of them played with the {noun} until the sun went down.
They gave the {noun} a name: the [Sea Star|Blue Wave|Little Duck|Brave Bean].

:maybe
{end}
"""

RESCUE = """
{start} {Day}, {he} was on {his} way {to} with {a_thing}.
{start} {He} had {a_thing}. "You never know when you may need {them}," {he} said.
{start} {Day}, {he} carried {a_thing} {to}.
"Why do you carry {a_thing}?" everyone asked {meet}. "You never know," {he} said.

:let cry where
a tiny mouse ~ deep hole
a little duckling ~ deep ditch
a small lamb ~ muddy pit
a baby rabbit ~ steep hollow
a little hedgehog ~ dry old well
a young frog ~ deep, empty tub

:para
{At}, {he} heard a small voice. "Help! Help!"
Suddenly {he} heard somebody calling. "Help me, please!"
[Near the path|{At}] {he} stopped. Did somebody cry?

{H} looked around. {Cry} had fallen into a {where} and could not get out.
There, in a {where}, sat {cry}. "I fell in," it said, "and it is too steep."
It was {cry}. It had slipped into a {where}.

:maybe
"Do not be afraid," said {h}. "I will get you out."
"Stay calm," {he} called. "I am here."
{H} reached down, but {his} reach was too short.

:para
{He} thought for a moment. Then {he} took {his} {noun}. "Of course!" {he} said. {H} let the
    {noun} down, slowly and carefully.
"I have {a_thing}!" said {h}. {He} held on tight and let the {noun} down.
"How good that I have my {noun}," {he} thought. {He} lowered {them} down and said, "Hold on!"

The little one held on, and {h} pulled. Up, up, up! And out!
"Now hold on tight," called {h}. {He} pulled and pulled, and up it came.
It took a while, but at last the little one was out, safe and sound.

"Thank you!" it said. "You saved me." {happy}
The little one shook off the [mud|dust] and laughed. {happy}
"You are my hero," said the little one. {happy}

:maybe
Its mother came running. She gave {h} {gift} as a thank-you.
They sat down and shared {food}.
Then they put [a board|a fence|big branches] over the {where}, so that nobody would fall in again.
"And I only had {a_thing}," said {h}. "You had a good idea too," said the little one.

:maybe
Since that day, {h} never goes out without {his} {noun}.
{end}
{end}
"""

PLOTS = (
    Plot(name="tree", text=TREE, needs=("wind",), where=("out",), weight=5),
    Plot(name="race", text=RACE, needs=("small", "ride"), where=("out",), weight=0.8),
    Plot(name="boat", text=BOAT, needs=("float",), where=("water",), weight=12),
    Plot(name="rescue", text=RESCUE, needs=("reach",), where=("out", "water"), weight=6),
)
