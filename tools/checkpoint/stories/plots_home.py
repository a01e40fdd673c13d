"""Plots at home: mending, a noise at night, a storm, the dark, bedtime."""

from __future__ import annotations

from tools.checkpoint.stories.plots import Plot

MEND = """
{start} {He} had {a_thing}, and {he} {used}.
{start} {He} had {a_thing}. {It} {was} {his} favorite thing of all.
{start} {Day}, {he} took {his} {full} {to}.
"Today I will {use}," said {meet}. {He} took out {his} {full}.

:para
But {day} {at}, {broke}.
Then something bad happened. {Broke}.
{Day}, {he} was in too much of a hurry, and {broke}.
Crack! {Broke}.
{H} dropped the {noun}, and {broke}.
One moment all was well. The next moment, {broke}.

{sad} "My poor {noun}!"
{sad}
{sad} "Now I can not use {them} any more."
"It is broken," said {h} in a small voice. {sad}

:let first
tried to fix {them} with a leaf, but the leaf fell off
tried to fix {them} with mud, but the mud ran off
tried to fix {them} with a blade of grass, but it was too thin
tried to fix {them} alone, but it did not work
looked at {them} from all sides, but did not know how to mend {them}

{He} {first}.
First {he} {first}.
{H} {first}. "What now?" {he} asked.

:para
Then {he} took the {noun} to {e.meet}. "Can you help me?"
At the end of the road lived {e.meet}. {H} knocked and held up the {noun}. "Please, can you mend
    {them}?"
{E.meet} was just passing. "What have you got there?" {e.he} asked.
{He} knew {e.meet} who could mend almost anything. So {he} went there.
{E.meet} saw {his} sad face. "Show me," said {e}.
"Go and ask the old one," said a neighbor. And so {h} went to see {e.meet}.

{E} looked at {them} [closely|carefully]. "We can mend that," {e.he} said. "You can help me."
"That is not so bad," said {e}. "We need [a little time|patience] and two pairs of hands."
"Hm, hm," said {e}. "I know what to do. Hold {them} still, please."
"Nothing is lost," said {e}. "Watch me, and next time you can do it yourself."

{H} held the {noun} still, and {e} {mended}.
{E} put on {e.his} glasses. Bit by bit, {e.he} {mended}, and {h} looked on.
"Watch closely," said {e}. {E.he} {mended}. It did not take long.
Slowly and carefully, they {mended}.
{E} showed {him} how, and together they {mended}.
They worked until noon. First they cleaned the {noun}, and then they {mended}.

:para
"There!" said {e}. "As good as new." {happy}
The {noun} {was} whole again. {happy}
Now the {noun} {was} even better than before. {happy}
And look, {it} {was} like new! {happy}

"Thank you!" said {h}. "What can I do for you?" "Just come and visit me," said {e}.
"Thank you so much," said {h}, and gave {e.him} {gift}.
{H} said thank you and {used}.
"I learned something today," said {h}. "Broken things can be mended."
"What do I owe you?" asked {h}. "A smile," said {e}. And {h} gave {e.him} a big one.
All the way home, {h} [sang|whistled|hummed]. And at home {he} {used}.
"Next time it is you who will help somebody," said {e}. "I will," said {h}.

:maybe
{end}
"""

NOISE = """
{start} {Night}, {he} woke up. There was a strange noise.
{start} {Night}, {he} heard a noise outside.
{start} {He} was asleep in {home} when something woke {him} up.
{Night}, {meet} could not sleep. There was a noise outside.

:let sound
Tap, tap, tap
Scratch, scratch
Bump, bump, bump
Rattle, rattle
Creak, creak
Swish, swish
Knock, knock

{sound}! What was that? {sound}!
"{sound}," it went in the dark.
{sound}! There it was again.

:maybe
"Who is there?" [whispered|called] {h}. Nobody answered.
{H} pulled the blanket up to {his} nose.
{His} heart beat fast. "Is it a monster?" {he} thought.
{He} hid {his} head, but the noise did not stop.

:para
{H} did not want to get up. But {he} wanted to know what it was.
To lie there and wonder was worse than to look. So {h} got up.
"If I do not look, I will never sleep again," thought {h}.
"I will be brave," {he} said to {himself}. {He} got up.
"I will just take one look," said {h}.
{He} took a deep breath and put one foot out of bed.

On tiptoe {he} went to the door and opened it, just a little.
Very quietly, {he} {walked} outside and looked around.
Out in the yard everything was blue and still. {H} held {his} breath.
{H} counted to three and peeped out. [An owl called far away.|The grass was wet.]
{He} went closer, step by step. {sound}!
Slowly {he} looked around the corner. The moon was shining.

:let culprit doing
{f.meet} ~ trying to carry {a_thing} home
{f.meet} ~ pulling {a_thing} along the ground
{f.meet} ~ trying to get {a_thing} out of a box
{f.meet} ~ putting {a_thing} in front of the door
{f.meet} ~ turning {a_thing} over and over

And what did {he} see? There was {culprit}, {doing}.
There, in the moonlight, was {culprit}, {doing}.
It was not a monster at all. It was only {culprit}, {doing}.

:para
"Oh, did I wake you?" said {f}. "I am sorry. The {noun} kept bumping into things."
"Hush," said {f}. "It was a surprise for you. But the {noun} made so much noise."
{F} jumped. "You gave me a fright!" {f.he} said. "You gave me one too," said {h}, and they both
    laughed.
"I could not sleep," said {f}, "so I wanted to bring you this {noun}."

"I thought you were a monster," said {h}. They laughed and laughed.
"And I lay there shaking like a leaf!" said {h}. That made them both laugh.
"Next time, knock and say your name," said {h}. {F} promised.
{H} laughed. "And I was so scared!" {he} said. "Wait, I will help you with the {noun}."
"Come in," said {h}. "It is cold outside. Bring the {noun} with you."

They carried the {noun} inside and had {food} together.
Together they put the {noun} where it belonged. Then they sat and looked at the moon.
So in the middle of the night they sat together with the {noun} and told stories.
With two it was easy. Soon the {noun} stood in its place, and all was quiet.

:maybe
After that, {h} went back to bed and was not afraid any more.
"A noise is only a noise," thought {h}, and closed {his} eyes.
When {he} heard a noise again, {he} just smiled.

:maybe
{end}
"""

DARK = """
{start} There was one thing {he} did not like: the dark.
{start} All day long {he} was brave. But at night {he} was afraid of the dark.
{start} When the sun went down, {he} always felt afraid.
"It is so dark," said {meet}. {He} did not want to go to sleep.

:maybe
The wind went hoo, and the shadows looked like big hands.
In the dark, even a chair looked like a bear.
{He} saw shapes on the wall and heard every little sound.

:para
{Night}, {p} came in with {a_thing}. "{This} {is} for you," {p.he} said.
{Night}, {h} called out. {P} came and brought {a_thing}.
So {p} gave {him} {a_thing}. "Keep {them} close to you at night," {p.he} said.

{H} took the {noun} to bed. Now there was something good in the dark.
"{This} {noun} {is} not afraid of the dark," said {p}. {H} held {them} {hold}.
{H} put the {noun} close to the bed, and at once the room felt less big.

:let shape truth
a tall thing with long arms ~ it was only a coat on a hook
a round thing with two ears ~ it was only a chair with a pillow on it
something that moved on the wall ~ it was only the branch of a tree in the wind
a long thing on the floor ~ it was only a sock
a big head at the window ~ it was only the moon behind a cloud

But in the night {h} woke up and saw {shape}. {He} took {his} {noun} and went closer. Look, {truth}!
Then {he} saw {shape}. "I have my {noun}," {h} told {himself}, and {he} went to look. And {truth}!
In the middle of the night there was {shape}. {H} held {his} {noun} tight and looked again. Ah,
    {truth}.

:para
{H} laughed out loud. "The dark is just the day with the light off," {he} said.
"So that is what you are," said {h}, and {he} was not afraid any more.
{H} laughed. How funny the dark could be!
"There is nothing to be afraid of," {he} said to the {noun}.

Then {he} went back to bed and slept until the sun came up.
{He} lay down again with the {noun} beside {him} and slept like a stone.
{P} looked in and saw {him} asleep, the {noun} close by.
From then on, {h} liked the night. You can see the stars in the dark!

:maybe
"Did you sleep well?" asked {p} in the morning. "Very well," said {h}.
"You were very brave," said {p} in the morning.

:maybe
{end}
"""

BEDTIME = """
{start} {Night}, it was time for bed, but {he} was not tired.
{start} It was late, and the moon was up. But {he} could not sleep.
"I am not sleepy," said {meet}. {He} sat up in bed and looked at the moon.
{start} {Night}, {he} turned to the left and {he} turned to the right, but sleep did not come.

{His} {full} lay [beside {him}|at the end of the bed].
{He} had {his} {full} with {him}, as always.
Even {his} {full} did not help.

:let one_try two_try three_try
{he} drank a sip of water ~ {he} counted the stars ~ {he} hummed a song
{he} counted ten sheep ~ {he} looked under the bed ~ {he} fluffed up the pillow
{he} listened to the rain ~ {he} closed one eye ~ {he} closed the other eye
{he} opened the window ~ {he} said good night to the moon ~ {he} shut the window again
{he} stretched {his} legs ~ {he} curled up in a ball ~ {he} lay on {his} back

:para
{One_try}. It did not help. {Two_try}. That did not help either.
{One_try}. {Two_try}. {Three_try}. But {he} was still awake.
First {one_try}. Then {two_try}. But no, {he} was still wide awake.

:maybe
"Are you still awake?" asked {p}, who had heard {him}.
"Are you there?" called {h}. {P} came in.
Soft steps came, and {p} looked in.

:para
{P} sat down on the bed. "Give me your {noun}," {p.he} said. "The {noun} {is} tired too."
"Maybe your {noun} can not sleep," said {p}. "You should sing to {them}."
"Shall I tell you what the {noun} did today?" asked {p}. {H} nodded.

:let lull
{H} held the {noun} close and sang a quiet song.
{P} told a story about a {noun} that sailed to the moon.
{P} hummed a slow song, and {h} held the {noun} close.
{H} stroked the {noun} and whispered, "Sleep well, little {one}."

{lull} Soon {his} eyes grew heavy.
{lull} The room was warm and still.
{lull} {H} yawned once, and then {he} yawned again.

"Good night," whispered {h}. And then {he} was asleep.
Before the end of it, {h} was fast asleep, with the {noun} beside {him}.
The moon shone in at the window and saw {h} and the {noun}, both asleep.
"Good night, {noun}. Good night, moon," said {h}, and closed {his} eyes.

:maybe
Good night, little {hero}.
And {p} put out the light and tiptoed out.
Outside, the stars kept watch.
Sleep well.
"""

PLOTS = (
    Plot(name="mend", text=MEND, needs=("breaks",), weight=1.2),
    Plot(name="noise", text=NOISE, needs=("small",), avoids=("food", "find")),
    Plot(name="dark", text=DARK, needs=("light", "bed"), for_young=True, weight=8),
    Plot(name="bedtime", text=BEDTIME, needs=("bed",), for_young=True, weight=12),
)
