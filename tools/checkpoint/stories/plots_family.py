"""Plots of family and giving: a gift, a secret, tidying up, moving, a seed."""

from __future__ import annotations

from tools.checkpoint.stories.plots import Plot

GIFT = """
{start} Soon it was the birthday of {f.meet}. {H} wanted to give {f.him} {a_thing}.
{start} {Day}, {he} thought, "I will give {a_thing} to my friend." The friend was {f.meet}.
{start} {His} friend, {f.meet}, was [a bit ill|sad|all alone] and had to stay at home. {H} had
    {a_thing} for {f.him}.
"What shall I give my friend?" said {meet}. "I know. {A_thing}!" The friend was {f.meet}.

{H} wrapped the {noun} in [red|blue|green|yellow] paper and tied a ribbon around it.
{He} put the {noun} in a box with paper and ribbon and set off.
{He} got some [red|blue|green|yellow] paper and a ribbon, wrapped the {noun} up and {walked} off.

:let mishap state
it began to rain, and soon the paper was wet ~ a bit wet
{he} slipped and fell into a puddle ~ a bit muddy
a goat wanted to eat the wrapping ~ no longer wrapped
{he} sat on it by mistake ~ a bit flat at one side
the wind took the ribbon away ~ without a ribbon
a bush tore the paper ~ in torn paper

:para
On the way, {at}, {mishap}.
But {at}, {mishap}. {sad}
{He} went the long way, and {at}, {mishap}.
The way was long. {At}, {mishap}.

"Now it is not a nice present any more," {he} [said|thought].
Now the present was {state}. "What will {f} say?" thought {h}.
{H} looked at the present. It was {state}. "I can not give it like this," {he} said.

:maybe
{He} almost turned back. But then {he} went on.
"Go on all the same," said a little bird on a branch.
{H} wiped it clean as well as {he} could.

:para
{H} knocked at the door. "It is {state}," {he} said in a small voice. "I am sorry."
{F} opened the door. {H} held out the present and said, "It was nicer this morning."
"This is for you," said {h} when {f} came to the door. "But it is {state}."

{F} opened it, and there {was} the {noun}. "{A_thing}! {This} {is} just what I wanted," {f.he} said.
{F} looked inside and {f.joy}. "{A_thing}! For me?"
{F} took the {noun} and held {them} close. "How lovely!" {f.he} said.
{F} tore off the rest of the paper. "{A_thing}! How did you know?" {f.he} asked.
"Come in, come in!" called {f}. Then {f.he} saw the {noun} and could not say a word for joy.

"And it is {state}," said {h}. "I do not mind at all," said {f}. "It comes from you."
"Did you come all that way for me?" asked {f}. "That is the best present of all."
"You thought of me," said {f}. "That is what counts."
"What is a bit of dirt?" said {f}. "It is the {noun} I care about, and you."
{F} laughed. "I would not change a thing," {f.he} said.
"A present from a friend is always perfect," said {f}.

{happy}
And they [ate {food} together|sat and talked|played] until [evening|the sun went down].
Then they laughed about the long way, and {h} told the story again from the start.
{F} put the {noun} where {f.he} could see {them} every day.

:maybe
{end}
"""

SECRET = """
{start} {He} had a secret. {He} was making {a_thing} for {p}.
{start} {Day}, {he} began to make {a_thing}. But nobody was to know, for it was a surprise for {p}.
"Shh!" said {meet}. "Do not tell anyone. I am making {a_thing} for my {p.noun}."

{He} worked on it {at}, {spot}, where nobody came.
Every day {he} went {to} and worked there in secret.
{His} secret place was {at}, {spot}.

{He} needed [paper, paint and glue|cloth, thread and ribbon|many bits and pieces], and {he}
    found them all over the house.
First it looked a bit odd. Then it looked better and better.
It was not easy. Twice {he} had to start again.

:para
"Where do you go all day?" asked {p}. "Nowhere," said {h} and [smiled|looked at the floor].
{P} saw paint on {his} nose. "What are you up to?" {p.he} asked. "Oh, nothing," said {h}.
"Why are you so quiet?" asked {p}. {H} [pressed {his} lips together|shook {his} head] and said
    nothing.
It was so hard to say nothing! When {p} asked, {h} had to look away.

:let leak
{F.meet} came by and saw the {noun}. "Please do not tell," said {h}. {F} kept the secret too.
{H} told only {f.meet}. "I won't say a word," said {f}. And {f.he} did not.
{F.meet} found {him} there. "Can I help?" {f.he} asked. From then on they worked together.

{leak}

:para
At last the big day came. "Close your eyes," said {h}.
And then it was done. {H} put the {noun} on the table and called {p}.
When the {noun} {was} ready, {h} covered {them} with a cloth and called {p}.

"Now look!" said {h}. {P} opened {p.his} eyes. "{A_thing}! Did you make {them} yourself?"
{P} saw it and put a hand to {p.his} heart. "{A_thing}! For me? How lovely!"
"For me?" asked {p}. "You made {a_thing} for me?" {H} nodded.

"So that was your secret," said {p} and hugged {him} for a long time.
"I have never had a better surprise," said {p}. {happy}
{P} had tears of joy in {p.his} eyes. {happy}

:maybe
"It was so hard not to tell you!" said {h}. And they both laughed.
A good secret is one that makes somebody glad in the end.

:maybe
{end}
"""

TIDY = """
{start} {His} room was a big mess. Somewhere in it {was} {his} {full}.
{start} {Day}, {he} wanted to play with {his} {full}, but {his} room was so full of things that
    {he} could not find {them}.
{start} {He} never tidied up. {Day}, {he} looked for {his} {full} and could not find {them}.
"I can not find my {full}," said {meet}. All over the floor lay clothes, paper and toys.

"First tidy up," said {p}. "Then you will find it."
{P} looked in. "No wonder," {p.he} said. "Look at this mess!"
"How can you find anything in here?" asked {p}.

"But that takes all day!" said {h}. [{He} sat down on the floor.|]
{H} sighed. It was such a lot of work.
"I do not want to," said {h} and [stamped {his} foot|made a face].

:let trick
Let us make a game of it. First everything that is red!
Let us sing while we work.
One thing at a time. Just begin with one thing.
I will count to a hundred, and you see how far you get.
Let us do it together. You take this side, and I take that side.

:para
"{trick}" said {p}. And so they began.
"I will show you how," said {p}. "{trick}"
{P} thought for a bit. "{trick}"

They put the [blocks|books] on the shelf and the [clothes|socks] in the drawer.
{H} picked up one thing after another: a sock, a cup, a ball of string.
The toys went into the box, and the paper went into the basket.

:maybe
Under the bed {he} found an old cookie. "Yuck!" {he} said.
Behind the door {he} found a shoe {he} had missed for weeks.
It was not so bad. It was even a bit of fun.

:let under
the bed
a heap of clothes
the last pile of paper
a big box
the chair

:para
And then, under {under}, {h} saw something. It was the {noun}!
{H} lifted the last things up. There, under {under}, {was} the {noun}!
"Look!" called {h}. Under {under} {was} the {noun}.

{happy} And how nice the room looked!
{happy}
The room was clean, and the {noun} {was} back. {happy}

"Now you have room to play," said {p}.
"From now on, my {noun} will have a special place," said {h}.
"Thank you for your help," said {h}. "It was fun."

:maybe
From then on {he} tidied up a little every evening.
{end}
{end}
"""

MOVE = """
{start} {Day}, {p} said, "We are going to live in a new house."
{start} {Day}, everything was put into boxes. {H} was moving to a new home far away.
{start} {Day}, a big cart stood at the door. {He} was going to move.
"I do not want to go," said {meet}. But tomorrow {he} would move to a new home.

{H} put all {his} things in a box. But {he} kept {his} {full} {hold}.
"You may take one thing with you on the way," said {p}. {H} took {his} {full}.
All the things went into boxes, only {his} {full} did not.

The road was long. {H} looked back until the old house was very small.
"Goodbye, house. Goodbye, tree," {he} said. Then they went.
They went over a hill and through a wood, on and on.

:para
The new home was {near}. It was big and empty, and it smelled of paint.
Then they were there. The new home was {near}. Everything was strange.
The new house stood {near}. There were no pictures and no friends.

{sad} "I want to go home," {he} said.
"I do not know anyone here," said {h}. {sad}
That night {he} could not sleep. {He} held {his} {noun} tight.

"Put your {noun} where you can see {them}," said {p}. {H} did so, and the room looked less strange.
{H} put the {noun} by the window. Now there was one thing {he} knew.
Then {h} set the {noun} next to the bed. "Now it is a little like home," {he} said.

:para
The next morning there was a knock. There stood {f.meet}. "I live next door," {f.he} said.
The next day, {he} went {to} with {his} {noun}. There was {f.meet}. "Hello! Are you new?" asked {f}.
In the morning, somebody called over the fence. It was {f.meet}.

"Oh, what a nice {noun}! May I see {them}?" asked {f}.
"Is that your {noun}?" asked {f}. "Come, I will show you everything here."
{F} saw the {noun}. "I like {them}," {f.he} said. "Do you want to play?"

They played until noon. {F} showed {him} the best place of all, {spot} {at}.
And so {h} had a friend in the new place. {happy}
{F} showed {him} the way to the shop and the best tree to climb.

"I think I like it here," said {h} that evening.
Now the new house was a home.
That night {h} slept well, and the {noun} did too.

:maybe
{end}
"""

SEED = """
{start} {Day}, {he} found {a_thing} {at}.
{start} {Day}, {e.meet} gave {him} {a_thing}. "Take good care of {them}," said {e}.
"What can this be?" said {meet}. {At}, {he} had found {a_thing}.

"It is so small," said {h}. "What could come out of it?"
{H} wondered what was inside.
"There is a big surprise in it," said {p}. "But you must wait."

:let grown
a tall sunflower
a red rose
a little apple tree
a big orange pumpkin
a row of sweet peas
a flower as blue as the sky

:para
{H} dug a hole {spot} and put the {noun} in. Then {he} gave it some water.
So {he} planted the {noun} in soft, warm earth and watered it.
{He} put the {noun} in a pot with earth and set it in the sun.

Every day {he} came to look. For a long time there was nothing.
Day after day went by. "Is it asleep?" asked {h}.
{He} waited and waited. {He} sang to it, and {he} told it stories.

:maybe
It rained, and the sun shone, and it rained again.
{F.meet} laughed. "Nothing will ever come of it," said {f}. But {h} went on.
Some days {he} wanted to give up. But {he} did not.

:para
Then one morning, something green looked out of the earth. {happy}
And then, one day, there was a little green leaf. {happy}
But one morning, {h} called out loud. A green tip stood where the {noun} had been!

It grew and it grew, and it turned into {grown}.
Out of the little {noun} came {grown}.
By the end of summer it was {grown}.

"All that was in one little {noun}," said {h}.
Everyone came to look at it, and {h} was proud.
"Who would have thought it?" said {h}. "Small things can be big inside."

:maybe
{end}
"""

PLOTS = (
    Plot(name="gift", text=GIFT, needs=("small",), weight=0.7),
    Plot(name="secret", text=SECRET, needs=("make",), weight=2.2),
    Plot(
        name="tidy",
        text=TIDY,
        needs=("toy", "read", "wear"),
        avoids=("ride", "find"),
        for_young=True,
        weight=2,
    ),
    Plot(
        name="move",
        text=MOVE,
        needs=("bed", "toy", "small"),
        avoids=("food", "seed", "ride"),
        for_young=True,
    ),
    Plot(name="seed", text=SEED, needs=("seed",), where=("out",), weight=8),
)
