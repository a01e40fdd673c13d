"""Plots of an ordinary day: a picnic, a high shelf, hide-and-seek, a story read aloud."""

from __future__ import annotations

from tools.checkpoint.stories.plots import Plot

PICNIC = """
{start} {Day}, {he} packed a bag for a picnic {at}. In it {was} {a_thing}.
{start} "I will have a picnic {at}," {he} said, and {he} put {a_thing} in a basket.
{start} {Day}, {he} carried {a_thing} {to}. {He} was going to have it all alone, in peace.
"What a day for a picnic!" said {meet}. {He} took {a_thing} and went {to}.

{He} sat down {spot} and spread out a cloth.
{He} looked for a nice place and found one {spot}.
The sun was warm. {H} sat down {spot} and took off {his} bag.

:let thief
a row of ants
three hungry sparrows
a very small mouse
a family of beetles
a thin little hedgehog
two baby squirrels

:para
{H} closed {his} eyes for a moment. When {he} opened them, the {noun} {was} moving! Under it sat
    {thief}.
But then {he} heard a small sound. There sat {thief}, right beside the {noun}.
{He} turned around to get a cup. And when {he} turned back, there sat {thief}, close to the {noun}.

"Stop! That is my {noun}!" [cried|called] {h}.
"Hey!" said {h}. "What are you doing with my {noun}?"
{H} was cross. "I did not ask you to come," {he} said.

"We are sorry," said a tiny voice. "We have not eaten since yesterday."
"Please do not be angry," somebody said. "It smelled so good, and our bellies are empty."
It was quiet. Then a thin voice said, "We are so hungry."

:para
{H} looked at the {noun}. It was big enough for more than one.
{H} was not cross any more. How bad it is to be hungry!
{H} thought of how it feels when your belly is empty.

"Then sit down with me," {he} said. "We will share it."
"Well," {he} said, "a picnic alone is a bit dull. Come and eat with me."
So {he} cut it up: a big piece for {himself}, and small pieces for all the others.

They ate and talked and told each other jokes. {happy}
And soon there was not a crumb left, and everyone was full. {happy}
How they liked it! {happy}

To say thank you, they carried the cloth and the bag home for {him}.
"You must come to us next time," said the guests.
They showed {him} where the sweetest berries grew.

:maybe
{end}
"""

SHELF = """
{start} {At}, high up on a shelf, lay {a_thing}.
{start} {He} wanted {a_thing} that lay on the top shelf {at}.
{start} {Day}, somebody had put {his} {full} on the very top shelf {at}.
"How do I get up there?" said {meet}. On the highest shelf lay {his} {full}.

{H} stretched as far as {he} could. It was too high.
{He} stood on {his} toes. {He} jumped. {He} jumped again. No use!
It was so near, and still {h} could not reach it.

:let try1 try2
put a box on a chair ~ The box wobbled, and down {he} came
took a long spoon ~ The spoon only pushed the {noun} further back
threw a sock at it ~ Now the sock was up there too
shook the shelf ~ A lot of dust fell on {his} nose, but nothing else
built a tower of books ~ The tower fell over with a bang

:para
Then {he} {try1}. {Try2}.
"I can do it alone," {he} said, and {he} {try1}. {Try2}.
{H} had an idea. {He} {try1}. {Try2}.

{sad}
"Ouch!" said {h}. {sad}
"I do not want any help," {he} said. But it was no use.

:para
{F.meet} looked in. "Why don't you ask?" said {f}. "Climb on my back."
The noise brought {f.meet}. "Two are taller than one," said {f}.
Then {f.meet} came in. "If you hold me up, I can reach it," said {f}.

So one stood on top of the other. Up, up, a bit more, and there it was!
They held on to each other and stretched. "A bit to the left," said {h}. "Got it!"
They tried it together. It wobbled, but it held, and down came the {noun}.

{happy} {thanks}
{thanks}
{H} had the {noun} at last. {thanks}

"Why did I not ask you at once?" said {h}.
"Next time, just call," said {f}.
After that they put the {noun} on the lowest shelf.
"Now let us {use}," said {h}. And so they did, both of them.

:maybe
{end}
"""

HIDE = """
{start} {Day}, {he} played hide-and-seek {at} with {f.meet}. {He} had {a_thing} with {him}.
{start} {He} loved hide-and-seek. {Day}, {he} went {to} with {his} {full} to play with {f.meet}.
"One, two, three," counted {f.meet}. {Meet} looked for a place to hide. {He} had {a_thing} with
    {him}.

{H} hid {spot} and kept very still.
"Where shall I hide?" thought {h}. Then {he} crept to a place {spot}.
{He} {ran} here and there. At last {he} hid {spot}.

"Ten! I am coming!" called {f}. {F.he} looked {spot2}. Nobody!
{F} looked {spot2}. {F} looked {spot3}. There was no {hero}.
"I will find you!" called {f}, and looked {spot2} first.

:para
But {h} had left {his} {noun} outside. {F} saw it and {f.joy}. "Now I know where you are!"
But the {noun} {was} sticking out a little. "I see {a_thing}!" called {f}. "Come out!"
Then the {noun} fell down with a small thump. "Aha!" said {f}. "I heard that."

"Oh no, my {noun}!" said {h}, laughing. "It gave me away."
{H} came out and laughed. "You found me because of my {noun}."
"That does not count," said {h}. But then {he} had to laugh too.

:para
Now it was {his} turn to count. {F} hid so well that {h} could not find {f.him} anywhere.
Then {h} counted to ten, and {f} hid. {H} looked high and low, but {f.he} was gone.
"My turn," said {h}, and {he} counted. Then {he} looked and looked. No {f.noun} anywhere!

:let clue
somebody giggled
somebody sneezed
a tail stuck out
a leaf moved, but there was no wind
somebody hummed a song

But what was that? {Spot3}, {clue}. "Found you!" called {h}.
{H} sat down with the {noun} and waited. Then {clue}. "Got you!" {he} called.
{He} was about to give up. Just then, {clue}. "There you are!" called {h}.

{happy}
They laughed so hard that they had to sit down.
"You are good at hiding," said {h}. "And you are good at finding," said {f}.

:maybe
Then they sat {spot} and looked at the {noun} together.
"Tomorrow again?" asked {f}. "Tomorrow again," said {h}.

:maybe
{end}
"""

READ = """
{start} {He} had {a_thing}, and {he} loved {them} more than sweets.
{start} {Day}, {he} took {his} {full} {to} to look at {them} in peace.
{start} {Day}, somebody gave {him} {a_thing}. {He} wanted to see all of it at once.

{He} sat down {spot} and began.
{H} looked for a quiet place {spot} and sat down.

:let ask1 ask2
What does it say? ~ I can not read
Is there something about {f2} in it? ~ I never had one of my own
Can you tell me what it is about? ~ I forgot my glasses
Are there pictures in it too? ~ I am too small to read

:para
{F.meet} came near. "{ask1}" asked {f}. "{ask2}."
"{ask1}" somebody asked. It was {f.meet}. "{ask2}," {f.he} said.

:maybe
{H} wanted to be alone. But {f} looked so curious.
"Sit down," said {h}. "But you must be quiet."
First {h} wanted to say no. Then {he} moved over a little.

So {h} showed {f.him} the {noun} and told {f.him} all about it, slowly and clearly.
"Come here," said {h}, and {he} held the {noun} so that both could see.

Then {f2} came. And then {f3}. "May we listen too?" they asked.
After a while {f2} sat down as well, and {f3} right beside. Nobody said a word.

:let topic
a whale that wanted to fly
a king who had lost his hat
a snail on a long journey
a ship that sailed to the moon
a cook who could only cook soup
an island where it snowed sugar

:para
It told of {topic}. "Oh!" they all said. "And then? And then?"
"Go on, go on!" they called, for it told of {topic}.

When it was over, it was very still. Then everyone clapped. {happy}
At the end they all sighed. "Once more, please!" And {h} began again. {happy}

"Will you teach me to read?" asked {f}. "Yes," said {h}. "We start tomorrow."
"It is better with all of you," said {h}.
"Thank you," said {f}. "I will dream of it tonight."

:maybe
{end}
"""

PLOTS = (
    Plot(name="picnic", text=PICNIC, needs=("food",), where=("out", "water"), weight=2),
    Plot(name="shelf", text=SHELF, needs=("small",), where=("in",), weight=1),
    Plot(name="hide", text=HIDE, needs=("small", "toy"), avoids=("seed", "ride"), for_young=True),
    Plot(name="read_aloud", text=READ, needs=("read",), avoids=("wind",), weight=8),
)
