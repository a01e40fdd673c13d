"""Plots about a wish, courage, kindness to somebody old, and a thing made bright again."""

from __future__ import annotations

from tools.checkpoint.stories.plots import Plot

WISH = """
{start} More than anything, {he} wished for {a_thing}.
{start} {He} dreamed of {a_thing}, day and night.
{start} All {his} friends had something nice. {H} only wished for {a_thing}.
"I wish I had {a_thing}," said {meet}.

{Night}, {he} sat {at} and saw a falling star. "I wish for {a_thing}," {he} whispered.
{Night}, {h} looked at the first star. "Please, star, may I have {a_thing}?"
{At} there was an old wishing well. {H} dropped in a penny and made a wish.
{H} blew on a dandelion until every seed had flown away. "I wish for {a_thing}," {he} said.
Somebody had told {him} that wishes come true {at}. So {he} went {to} and made one.
"Who makes wishes come true?" {he} asked {p}. "You never know," said {p}. "Say it out loud." So
    {he} did.

:maybe
But in the morning there was nothing. {sad}
{He} waited, but no {noun} came.
"A wish needs a little help," said {p}.

:let who need
{e.meet} ~ had too much wood to carry, and {h} carried it home for {e.him}
{e.meet} ~ had a garden full of weeds, and {h} pulled them all out
{e.meet} ~ could not find {e.his} hat, and {h} looked until it was there
{e.meet} ~ had a sore foot, and {h} brought {e.him} soup
{e.meet} ~ was all alone, and {h} sat and talked with {e.him} all day
{e.meet} ~ had spilled a whole sack of beans, and {h} picked up every one

:para
The next day, {h} met {who}. {E.he} {need}.
On {his} way {to}, {h} met {who}. {E.he} {need}.
{Day}, {he} saw {who}. {E.he} {need}.

"You did that for nothing?" asked {e}. "Then let me give you something too."
"Nobody has been so good to me for years," said {e}. "I have to find something for you."
"How can I thank you?" asked {e}. "You do not have to," said {h}. But {e} had an idea.
{E} looked at {him} for a long time. "A heart like yours should have its wish," said {e}.
When all was done, {e} said, "Now close your eyes, my dear."
"You are so kind," said {e}. "Is there something you wish for?" "Well," said {h}, "there is one
    thing."
{E} smiled. "I have something at home that I do not need any more," {e.he} said.

:para
And what did {e} bring out? {A_thing}!
{E} went into the house and came back with {a_thing}.
The next morning, at {his} door, there {was} {a_thing}. There was a note too: "Thank you."
{E} opened an old chest. Under a blanket lay {a_thing}. "Take {them}," {e.he} said.
"Here," said {e}, and put something in front of {him}. It was {a_thing}!
The next day {e} came by with a parcel. {H} opened it. {A_thing}!

"My wish!" [cried|called|whispered] {h}. {happy}
{H} rubbed {his} eyes. It was real! {happy}
"Is {this} for me?" asked {h}. "For you," said {e}. {happy}
It was just what {he} had dreamed of. {happy}
{happy} {He} could not say a word.
"How did you know?" asked {h}. {E} only smiled.

That night, {he} looked up at the sky. "Thank you," {he} said.
Was it the wish? Or was it {his} own kind heart? Who knows?
{H} wanted to {use} right away, and so {he} did.
"When you are kind, good things come to you," said {p}.

:maybe
{end}
"""

OLD = """
{start} Next door lived {e.meet}. {E.he} had {a_thing} and loved {them} very much.
{start} {Day}, {he} saw {e.meet} {at}. {E.he} had lost {e.his} {full}.
{start} {Day}, {e.meet} was out {at} with a heavy bag. On top of it was {a_thing}.
"Good morning!" said {meet} to {e.meet}, who was sitting {at} with {a_thing}.

:let trouble fix
the bag tipped over, and the {noun} rolled away and came to rest {spot}. {E} could not bend down
    ~ {H} {ran} over,
    bent down and picked the {noun} up
{e} dropped the {noun} {spot} and could not see where {it} {was} ~ {H} had good eyes. {He}
    looked {spot} and found {them} at once
{e} set {them} down {spot} to rest and then forgot {them} there ~ {H} saw it, picked {them} up
    and {ran} after {e.him}
the bag tore, and everything fell out. The {noun} landed {spot} ~ {H} picked up one thing after
    another, and last of all the {noun}

:para
But then {trouble}.
Then {trouble}.
All at once {trouble}.

"Oh dear," said {e}. "What shall I do now?"
"I am not as young as I was," said {e}.
{E} sighed. "My back is old, and my eyes are weak," {e.he} said.
{E} looked this way and that. "Will nobody help me?" {e.he} said.
"Oh my, oh my," said {e}. "And I am already so tired."

:para
"Wait, I will help you," said {h}. {fix}.
"Please stay where you are," said {h}. "I will see to it." {fix}.
"No trouble at all," said {h}. {fix}.
{H} saw what had happened. {fix}.
{fix}. "Here you are," {he} said.
{H} did not think for long. {fix}.
"Let me do it," said {h}. {fix}.

"And now I will walk home with you," said {h}. They went slowly, arm in arm.
{H} took the bag too and carried it all the way home.
Then {he} walked home with {e}, step by step.

:let reward
told {him} stories of long ago, of ships and storms and stars
made {him} a cup of cocoa and gave {him} {gift}
showed {him} old pictures from when {e.he} was small
taught {him} a song that nobody else knew

:para
At home, {e} {reward}.
{E} asked {him} in. There {e.he} {reward}.
It was warm and cozy there. {E} {reward}.
To say thank you, {e} {reward}.
"Sit down for a while," said {e}. And {e.he} {reward}.

"Will you come again?" asked {e}. "Tomorrow!" said {h}.
"You have a kind heart," said {e}. {happy}
From that day on, {h} came to visit every week.
"What is your favorite food?" asked {e} at the door. "{Food}!" said {h}. "Then that is what we
    will have next time."
And so the two of them, one old and one young at heart, were friends.
"Old friends are good friends," thought {h} on the way home.
{happy} "It is nice to help," thought {h}.

:maybe
{end}
"""

BRAVE = """
:let fear test done
falling ~ jump over the wide ditch ~ jumped right over the ditch and landed on the other side
the old bridge ~ walk over the old bridge ~ walked over the bridge, all the way to the other side
high places ~ climb up to the top of the big rock ~ stood at the very top and could see the
    whole world
loud noises ~ walk past the noisy mill ~ walked past the noisy mill and did not even blink
talking in front of others ~ say a poem in front of everyone ~ said the poem from beginning to end
going alone ~ go all the way to the end of the path alone ~ came to the end of the path, all alone
big dogs ~ walk past the big dog next door ~ walked past the big dog, and the dog only yawned

{start} {He} could do many things. But {he} was afraid of {fear}. All {he} had to help {him} was
    {a_thing}.
{start} {He} always carried {a_thing}. It made {him} feel safe, for {he} was afraid of {fear}.
"Not me," said {meet}, who was afraid of {fear}. {He} held {his} {full} {hold}.

{Day}, {f.meet} said, "Come with me {to}. We will {test}."
{Day}, everyone met {at}. "Today we will {test}," said {f.meet}.
{Day}, {at}, {f.meet} asked, "Do you dare to {test}?"

:para
{H} went pale. "I can not do that," {he} said.
{H} looked at {his} feet. "You go first," {he} said. "I will watch."
"I have a sore foot," said {h}. But that was not true. {He} was just afraid.
{His} knees shook. "Not today," said {h}. "Maybe tomorrow."
"Oh no, not me," said {h} and took a step back.

{F} did not laugh. "I was afraid too, once," {f.he} said.
"Everyone is afraid of something," said {f}. "I am afraid of spiders."
"You can hold my hand," said {f}. "And you have your {noun}."

"Take your {noun} with you," {f.he} said. "One small step, and then one more."
"Hold your {noun} tight and count to three," {f.he} said.
"Think of your {noun} and not of your fear," {f.he} said. "Then go slowly."

:para
{H} held the {noun} tight. {His} heart went bump, bump. One step. Two steps. Three.
"One, two, three," {h} counted, and held on to the {noun}. Then {he} went.
{H} took a deep breath, looked at the {noun}, and began.
{He} shut {his} eyes, opened them again, looked at the {noun} and said, "Now!"
{His} legs felt like jelly. But the {noun} {was} there, and so was {f}. {H} began, bit by bit.

And then {he} {done}!
The next moment, {he} {done}.
It took a long time, but in the end {he} {done}.
{H} did not stop, and so {he} {done}.
And look, {he} {done}.
Before {he} knew it, {he} {done}.

"I did it!" [cried|called|shouted] {h}. {happy}
{happy} "It was not so bad," {he} said.
"You did it!" called {f}. {happy}
{F} clapped and clapped. {happy}
"Was that really me?" asked {h}. {happy}

:maybe
"Was it the {noun}?" asked {h}. "No," said {f}. "It was you."
"Again!" said {h}. "I want to do it again!"
Being brave means that you are afraid and do it all the same.
After that, {h} lent the {noun} to {f2}, who was afraid of the dark.

:maybe
{end}
"""

PAINT = """
{start} {He} had {a_thing}. {It} {was} old, and the paint was coming off.
{start} {Day}, {he} found {a_thing} {spot} {at}. {It} {was} gray with dust and dirt.
{start} Behind the house stood {a_thing} that nobody wanted any more.
"Poor {noun}," said {meet}. {He} had found {a_thing} {spot}, dusty and forgotten.

"Throw it away," said {f.meet}. "It is no good."
{F.meet} laughed. "What do you want with that old {noun}?" {f.he} asked.
"That is only good for the fire," said {f.meet}.

"No," said {h}. "I will make it bright again."
But {h} saw something in it. "Wait and see," {he} said.
{H} did not listen. {He} had a plan.

:let pattern
yellow stars on a blue ground
red dots, as round as apples
green leaves and little white flowers
stripes of red and yellow
a big sun and small clouds
a row of fish, each one in another color

:para
First {he} washed it. [Then {he} rubbed it until it was smooth.|]
{He} got a brush, a bucket and soap, and {he} scrubbed it clean.
{He} worked all morning and took off the dirt, bit by bit.

Then {he} mixed the paint and painted {pattern}.
After that {he} took {his} paints. {Pattern}, that was what {he} wanted.
Stroke by stroke, {he} painted {pattern}.

:maybe
Some paint got on {his} nose, and some on the floor.
It began to drip, so {he} had to wipe and start again.
{H} hummed a song as {he} worked.

:para
In the evening the {noun} stood there, shining. {happy}
When the paint was dry, the {noun} looked better than new. {happy}
"Finished!" said {h}, and stepped back to look. {happy}

Everyone {at} stopped to look. "Where did you get such a fine {noun}?" they asked.
{F} came by again. {F.his} eyes grew big. "Is that the same {noun}?"
{F} did not laugh now. "It is lovely," {f.he} said. "I was wrong."

"Would you like to paint something too?" asked {h}. "I would love to," said {f}.
"Nothing is too old to be loved," said {h}.
"It was always a good {noun}," said {h}. "It only needed some care."

:maybe
{end}
"""

PLOTS = (
    Plot(name="wish", text=WISH, weight=0.6),
    Plot(
        name="old_one",
        text=OLD,
        needs=("small",),
        avoids=("seed",),
        where=("out", "water"),
        weight=0.8,
    ),
    Plot(
        name="brave", text=BRAVE, needs=("small",), avoids=("food", "grow", "seed"), where=("out",)
    ),
    Plot(name="paint", text=PAINT, needs=("paint",), where=("in", "out"), weight=2),
)
