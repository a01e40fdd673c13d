"""Plots about learning and doing: music, baking, teaching, a contest."""

from __future__ import annotations

from tools.checkpoint.stories.plots import Plot

MUSIC = """
{start} {Day}, {he} got {a_thing}.
{start} {He} loved music, and {he} had {a_thing}.
{start} {Day}, {he} found {a_thing} {spot} {at}.
"Listen!" said {meet}. {He} had {a_thing}.

{He} {used}. But oh, what a noise it was!
{H} tried it out. It sounded [awful|terrible|like a cat in a bucket].
The first sound was so loud that the birds flew away.
{He} wanted to make a song, but only odd sounds came out.

{F.meet} put {f.his} hands over {f.his} ears. "That is not music!" said {f}.
"Please stop," said {f.meet}. "My ears hurt."
{F.meet} laughed. "You will never learn it," said {f}.

:para
{sad}
{H} put the {noun} away. "Maybe I am no good at it," {he} said.

:let advice
Play it softly, and listen to every sound.
Do it a little every day, and it will come.
Start slowly. Fast comes later.
First hear the song in your head, and then play it.
Everyone starts small. Just go on.

:para
Then {e.meet} came by. "{advice}" said {e}.
But {e.meet} had heard it too. "Do not give up," said {e}. "{advice}"
{E.meet} sat down beside {him}. "I was no better when I was young," said {e}. "{advice}"

So {h} went {to}, where nobody could hear {him}, and practiced. Every day it was a bit better.
{H} practiced in the morning and in the evening, day after day. Slowly it became a song.
And so {he} practiced {at}. One day it was still bad. Then it was not so bad. And then it was good.

:para
Then there was a party {at}. "Who will make music for us?" asked everyone. "I will," said {h}.
{Day}, there was a big feast {at}, but there was no music. {H} stepped forward with the {noun}.
A week later, everyone met {at}. {H} took a deep breath and held the {noun} {hold}.

{He} {used}. It was so lovely that everyone [began to dance|stood still and listened|sang along].
And then {he} {used}. Feet began to tap, and soon everyone was dancing.
How well it sounded! The old ones clapped, and the young ones danced.

"I was wrong," said {f}. "You play so well!" {happy}
{F} danced most of all. "Will you teach me?" {f.he} asked.
{E} smiled at {him} from the back. {happy}

:maybe
You only have to go on, a little every day.
{end}
{end}
{end}
"""

BAKE = """
{start} {Day}, {he} wanted to make {a_thing} for {p}.
{start} {Day}, {he} put on an apron. "I will bake {a_thing}," {he} said.
{start} It was a birthday. {H} wanted to bake {a_thing} for {f.meet}.
"Who will help me bake {a_thing}?" asked {meet}.

{He} got everything ready: flour, eggs, milk and butter.
{He} took a bowl, flour, butter and eggs.
{He} looked for flour and sugar and found them {spot}.

{H} stirred and stirred. [Flour flew everywhere.|Some of it landed on {his} nose.]
Stir, stir, stir! It was hard work, but it smelled good.
First {he} mixed, then {he} stirred, and then {he} mixed again.

:let trouble fix
there was no sugar left ~ {e.meet} next door had some honey. "Take this," said {e}. "It is even
    better"
the last egg rolled off the table and broke ~ {e.meet} gave {him} an egg, still warm. "You are
    welcome to it," said {e}
the oven would not get hot ~ {e.meet} came and showed {him} how to light it. "Now wait a
    little," said {e}
there was no milk ~ {e.meet} came by with a full jug. "Take as much as you need," said {e}
the first one burned and was as black as coal ~ {e.meet} came by. "That happens to everyone,"
    said {e}. "Try again, and watch it well"
{he} put in salt and not sugar ~ {e.meet} took one bite and laughed. "Let us start again
    together," said {e}

:para
But then {trouble}. {sad}
"Oh no!" cried {h}, for {trouble}.
Then something went wrong: {trouble}. "What now?" said {h}.

But {fix}.
Luckily, {fix}.
But help was near. {Fix}.

:para
At last the {noun} {was} in the oven. It smelled so good!
Then they waited, and {h} looked into the oven every minute.
So the {noun} went into the oven. Soon the whole house smelled sweet.

When the {noun} came out, {it} {was} golden brown. {happy}
And what a {noun} it was! {happy}
The {full} was ready. It was the best {h} had ever made.

They all sat down together and ate. Not one crumb was left.
"Mmm," said everyone. "May we have some more?"
{H} cut it up, and everyone had a piece, {e} too.
The first piece was for {e}, and the last one was for {h}.
"I have never tasted anything so good," said {e} with a full mouth.

:maybe
"Thank you for your help," said {h} to {e}.
"Cooking together is more fun," said {h}.

:maybe
{end}
"""

TEACH = """
{start} {He} had {a_thing} and knew all about {them}.
{start} {He} was good at many things. {He} had {a_thing}, and {he} {used}.
{start} {Day}, {he} took {his} {full} {to}.

{F.meet}, who was still very small, came along. "Can I try that too?" asked {f}.
{F.meet} looked on. {F.he} had never done it before. "I want to do that too," said {f}.
{F.meet} was watching. {F.he} was much younger. "Show me how, please," said {f}.

"You want to {use}?" asked {h}. "It is not easy, but I will show you."
"Of course," said {h}. "I will show you how to {use}."
"Come here," said {h}. "First look how I do it."

:para
{F} tried. It did not work. {F.he} tried again. It did not work again.
The first try went wrong. So did the second.
{F} was too quick, and it all went wrong.
"I can not do it!" cried {f}. "I am too small."

"It is too hard," said {f} and [stamped {f.his} foot|sat down|began to cry].
{F} was close to tears. "I will never learn it."
"Everyone can do it but me," said {f}, and {f.his} chin shook.
"You make it look so easy," said {f}. "I give up."
{F} gave the {noun} back. "I do not want to any more."

:let memory
I cried as well, the first time
When I was small, I could not do it at all
It took me a whole week
I fell on my nose three times
My first try was much worse than yours

"{memory}," said {h}. "[Try it once more|Try again|Do not give up]."
{H} laughed softly. "{memory}," {he} said. "And look at me now."
Then {h} remembered something. "{memory}," {he} told {f.him}.

:para
{H} stood behind {f.him} and helped. "Slowly. Yes, like that!"
{H} showed it again, very slowly, one step at a time.
"Look at me, not at your feet," said {h}. "And now, go!"
"Take a deep breath," said {h}. "One, two, and three!"

And this time it worked! {F} {f.joy}.
{F} tried once more. And look, {f.he} could do it!
Once more {f.he} tried, and all at once it was easy.
One more time. And then {f} forgot to be afraid, and it went like a dream.
At the tenth try, it worked. {F} {f.joy}.

"I did it! I did it!" called {f}. "You are a good teacher," {f.he} said to {h}.
{H} was even prouder than {f}.
"Bravo!" said {h}. {happy}
{H} clapped. "I knew you could do it," {he} said.
"Did you see that? Did you see that?" called {f}. "I saw it," said {h}, and {he} smiled.

:maybe
The next day, {f} showed it to {f2}. That is how things go on and on.
They stayed {at} until the sun went down and did it again and again.
"Will you show me more tomorrow?" asked {f}. "Yes," said {h}.

:maybe
{end}
"""

CONTEST = """
{start} {Day}, there was a contest {at}: who had brought the nicest thing? {H} had {a_thing}.
{start} {Day}, {he} took {a_thing} to the big show {at}.
{start} "Bring the best thing you have," said the sign {at}. So {h} brought {a_thing}.

{F.meet} was there too, with a shining silver cup. "I will win," said {f}.
Beside {him} stood {f.meet} with a clock as tall as a door. "Mine is much bigger," said {f}.
{F.meet} had come with a cart full of gold and glass. "Is that all you have?" {f.he} asked {h}.
{F.meet} was there with a golden bird. Everyone looked at it and said, "Ah!"
{F.meet} had brought a huge tower of glass. "Yours looks so plain," said {f}.

{H} looked at {his} {noun}. [Beside all that|Now] it looked rather plain.
{H} felt very small. Should {he} go home?
"Mine is only {a_thing}," thought {h}.

:maybe
But {he} stayed. "I like {them}," {he} said to {himself}.
"I am here now," {he} thought, "so I will stay."

:let question answer
What can you tell us about it? ~ {H} told how {he} had got {them}, and how {he} loved to {use}
Why did you bring {this}? ~ "Because I think of home when I see {them}," said {h}
What is so special about it? ~ "I take care of {them} each day," said {h}. "And I share {them}
    with everyone"
Who helped you? ~ "My family and my friends did," said {h}. "Without help I would have nothing
    to show"

:para
The judge was {e.meet}. {E} came to {h}. "{question}" {e.he} asked. {answer}.
{E.meet} was the judge. {E} looked at everything and then stopped at {his} place. "{question}"
    {answer}.
Then the judge came, {e.meet}. "{question}" asked {e}. {answer}.

{E} nodded slowly. "That is a good answer," {e.he} said.
{E} smiled and wrote something down.
It was very quiet. Everyone had listened.
{E} took off {e.his} glasses. "I see," {e.he} said in a warm voice.
"Well, well," said {e}, and looked at {h} in a friendly way.

:para
"Many things here are big and fine," said {e}. "But the prize goes to {h} and the {full}!"
Then {e} called out the winner. It was {h}, with the {full}!
At noon the bell rang, and everyone was still. "First prize," said {e}, "for {h} and the {full}!"
{E} pinned a red ribbon on {him}. "This is for you and your {noun}," {e.he} said.
"The winner is the one who shines from the heart," said {e}. And {e.he} gave {him} a blue ribbon.

{happy} Everyone clapped.
{happy}
{H} could not believe it. {happy}
"Me?" asked {h}. "Really me?" {happy}

{F} came over. "You won fairly," {f.he} said. "May I look at it?"
"Next year I will bring what I love best too," said {f}.
{H} gave {f} half of the prize, a bag of nuts. And so both were happy.

:maybe
{end}
"""

PLOTS = (
    Plot(name="music", text=MUSIC, needs=("music",), weight=6),
    Plot(name="bake", text=BAKE, needs=("bake",), where=("in",), weight=5),
    Plot(
        name="teach", text=TEACH, needs=("toy", "ride", "music", "throw"), avoids=("bed",), weight=2
    ),
    Plot(name="contest", text=CONTEST, avoids=("big",), where=("out",), weight=0.6),
)
