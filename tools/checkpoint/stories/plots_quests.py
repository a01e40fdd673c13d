"""Plots about looking for something: lost, found, a treasure, an owner."""

from __future__ import annotations

from tools.checkpoint.stories.plots import Plot

LOST = """
{start} {He} had {a_thing}.
{start} {H} had {a_thing}, and {he} took {them} everywhere.
{start} {Day}, {his} [aunt|grandma|friend] gave {him} {a_thing}.
{start} Of all {his} things, {he} loved {his} {full} best.
"Where {is} my {noun}?" said {meet}. {He} had {a_thing}, but now {it} {was} gone.
{start} {He} never went out without {his} {full}.

[{He} liked to {use}.|{H} loved to {use}.|]
Most days, {he} {used}.
{It} {was} [not new|not worth much money], but {h} loved {them}.

:para
But {day}, [after a walk {at}|after a game {at}], the {noun} {was} [gone|missing|not there].
{Day}, {h} {walked} {to} to play. When {he} got home, the {noun} {was} gone.
{Day}, {h} played {at} for so long that {he} forgot {his} {noun}. At home, {he} saw that {it}
    {was} gone.
Then, {day}, {he} lost {his} {noun} [somewhere|while playing] {at}.
{Day}, {h} {ran} {to}, round and round, this way and that. When {he} stopped, the {noun} {was} gone.

{sad}
{sad} "I must find my {noun}," {he} said.
"My {noun}! My [lovely|dear|good old] {noun}!" [cried|said] {h}.

:let trick moral
Think of where you were last. ~ It helps to stop and think
Let us go back, step by step. ~ One step at a time is best
You look low and I will look high. ~ Two can find more than one
Close your eyes and think. ~ It helps to stop and think
Do not hurry. Look slowly. ~ Slow eyes see more than fast ones
Four eyes see more than two. ~ Four eyes are better than two

:para
{H} went back {to} and looked {spot2}. Nothing! {He} looked {spot3}. [No {noun}|Nothing there]!
First {h} looked {spot2}. Then {he} looked {spot3}. But the {noun} {was} not there.
{He} {ran} back {to}. {H} looked {spot2} and {spot3}, but {he} found only [a leaf|dust|an old
    nut|a beetle].
So back {he} went {to}. {Was} {it} {spot2}? No. {Was} {it} {spot3}? No.

{F.meet} came by. "What are you looking for?" {f.he} asked.
Just then, {f.meet} came along. "Why do you look so sad?" asked {f}.
{F.meet} saw {him} and came over. "Can I help you?" asked {f}.
"Have you lost something?" asked {f.meet}, who was passing by.

"I lost my {noun}," said {h}. "{trick}" said {f}. ["I will help you."|]
{H} pointed at {his} empty [pocket|bag]. "No {noun}," {he} said. "{trick}" said {f}.
"Have you seen {a_thing}?" asked {h}. "Not yet," said {f}. "{trick}"
"My {noun} {is} gone," {he} said. "I will help you," said {f}. "{trick}"
{H} told {f.him} about the {noun}. {F} [nodded|thought for a while]. "{trick}" {f.he} said.

:para
So they looked again, and [there|at last], {spot}, they saw something. It was the {noun}!
They looked here and they looked there. At last {f} called, "Look! {Spot}!" And there {was} the
    {noun}.
Together they searched {at}. Then {h} looked {spot}. There {was} {his} {noun}!
They turned over every leaf {at}. And what lay {spot}? The {noun}!
Not long after, {f} gave a shout. {F.he} had looked {spot}, and there {was} the {noun}.
Something [bright|familiar] peeped out {spot}. {H} [ran|went] closer. It was the {noun}!
They walked slowly {at}. "Wait! What is that {spot}?" asked {f}. It was the {noun}!

{happy}
{thanks}
{happy} {thanks}
{H} picked {them} up and held {them} {hold}. {thanks}
"You found {them}!" [cried|called] {h}. {happy}

:maybe
"{moral}," said {f}.
"{moral}," said {h}, and {f} [nodded|laughed].
From then on, {h} [took good care of|kept an eye on] the {noun}.
After that, {h} always put the {noun} in the same [place|safe place] at night.

:maybe
{end}
"""

OWNER = """
{start} {Day}, {he} {walked} {to}. There, {spot}, {he} saw {a_thing}.
{start} {Day}, something lay {spot} {at}. It was {a_thing}!
{start} {Day}, while playing {at}, {he} found {a_thing} {spot}.
"What is that?" said {meet}. {He} was {at}, and {spot} lay {a_thing}.

:maybe
"How nice!" {he} said. "May I keep {them}?"
"What a find!" said {h}. {He} picked {them} up {hold}.
{He} looked all around. There was nobody there.
{H} wanted to keep {them} very much.

But then {he} thought, "Somebody must miss {this} {noun}."
But a small voice inside {him} said, "{It} {is} not yours."
What would {p} say? {H} knew it well: "Find out whose {its}."
{H} wanted to keep {them}. But {he} thought, "What if somebody is sad now?"
"{This} {is} not mine," {he} said. "I will find out whose {its}."
Then {he} shook {his} head. "{This} {noun} must belong to somebody," {he} said.

:para
So {he} asked {f2}. "No, {its} not mine," said {f2}. "[Ask down the path|Try somebody else|I am
    sorry]."
First {h} went to {f2}. "Is this yours?" "No," said {f2}, "but it looks very nice."
{H} {ran} to {f2} and asked. {F2} shook {f2.his} head. "Not mine," said {f2}.

:maybe
Next {h} asked {f3}. "Not mine either," said {f3}.
{He} asked {f3} too, but {f3} had never seen it before.
{F3} did not know either. {H} {walked} on and on.

:para
At last {he} met {f.meet}, who was looking {spot2}. "Oh, where is it?" {f.he} said.
Then {he} heard somebody crying. It was {f.meet}. "I lost my {noun}," said {f}.
Behind the next [bush|corner|wall] sat {f.meet}. {F.he} looked very sad. "I have lost my
    {noun}," {f.he} said.
{Near} sat {f.meet} with a sad face. "My {noun} {is} gone," {f.he} said.

"{Is} {this} yours?" asked {h}. "Yes! My {noun}!" cried {f}.
{H} held out the {noun}. "Then {this} must be yours," {he} said.
"Does it look like this?" asked {h}, and {he} showed {f.him} the {noun}.
{H} smiled. "Close your eyes and hold out your hands," {he} said. And {he} gave {f.him} the {noun}.
"Do not be sad," said {h}. "Look what I found {spot}!"

{F} {f.joy}. "Thank you! [You are so honest|How good of you]!"
{F} [laughed and cried at once|gave {him} a big hug|could not stop smiling]. "You are a true
    friend," {f.he} said.
"You could have kept {them}, but you did not," said {f}. "Thank you."
{F} did not know what to say. "I had given up hope," {f.he} said at last.
"I thought I would never see {them} again," said {f}. "How can I thank you?"

:maybe
"Come and play with me," said {f}. And they [played until dark|became good friends].
{F} gave {him} {gift} to say thank you.
{H} had no {noun} now, but {he} had a new friend.
{H} was glad. Giving {them} back felt better than keeping {them}.

:maybe
{end}
"""

TREASURE = """
{start} {Day}, {he} found a [yellow|crumpled|dusty] map [in a bottle|under {his} bed|in an old
    book]. At the end of a dotted line stood the words "{A_thing}".
{start} {Day}, a [robin|postman|little bird] brought {him} a map. "Follow the line and find
    {a_thing}," it said.
{start} {He} had always wanted {a_thing}. {Day}, {he} found a map with a [big|red] cross on it
    and a picture of a {noun}.
"A map!" said {meet}. It showed the way to {a_thing}.

"A treasure!" said {h}. {He} told {f.meet}, and off they went.
{H} ran to fetch {f.meet}. "A real treasure map!" cried {f}. "When do we start?" "Now!" said {h}.
"I have to see this with my own eyes," said {h}. On the way {he} met {f.meet}, who came along too.
{H} went to see {f.meet}. "Will you come with me?" {F} said yes at once.
{He} showed it to {f.meet}. "Let us go!" said {f}.

:para
The map said: go {to}. So they went {to}.
First the line went {to}. "This way," said {h}.
The dotted line began {at}. {H} counted the steps: one, two, three.

:let bar way
a deep ditch ~ They laid a log across it and walked over, slowly and carefully
a wide puddle ~ They hopped from stone to stone
a thick hedge ~ They found a small gap and crept through
a muddy path ~ They walked on the grass and kept their feet dry
a fork in the path ~ They turned the map around, and then they knew the way
a tall wall ~ They looked for a gate, and there it was, behind the ivy
a patch of thorns ~ They went the long way round

But then they came to {bar}. "What now?" asked {f}. {way}.
Soon there was {bar} in front of them. {way}.
"Oh no, {bar}!" said {h}. They stopped and thought. {way}.

:para
At last they stood at the cross on the map. It was {spot}.
The line ended {spot}. "Here it must be," said {h}.
And then the map came to an end. {H} stopped {spot}. "We are there," {he} said.
{H} counted ten more steps and stopped {spot}. "It has to be right here."
"Look {spot}!" said {f}. "That is where the cross is."

They dug and dug. And there {was} {a_thing}!
{F} pushed the leaves aside, and {h} saw it first: {a_thing}!
"One, two, three, lift!" They moved a heavy stone. And under the stone {was} {a_thing}!
It took a while, but then {h} felt something with {his} foot. It was {a_thing}!
{H} looked closely, and there, in a small box, {was} {a_thing}.
Under some leaves they found a box. In the box {was} {a_thing}.

{happy}
"We did it!" [cried|called] {h}. {happy}
"You read the map so well," said {f}. {happy}

:maybe
"It belongs to both of us," said {h}. And so they shared {them}.
"I could not have done it alone," said {h}. "Now the {noun} {is} ours."
"The best part was the walk," said {f}. {H} thought so too.
Then {h} drew a new map, so that somebody else could have fun too.

:maybe
{end}
"""

HOME = """
{start} {Day}, {he} took {his} {full} and {walked} {to}.
{start} {Day}, {he} went {to} with {a_thing}.
{start} {He} had {a_thing}. {Day}, {he} took {them} along on a long walk {to}.

It was so nice there that {he} forgot the time.
{He} looked at this and that, and went further and further.
{He} [chased a butterfly|looked for berries|followed a beetle] and did not look where {he} was
    going.

:para
Then it got dark. "Which way is home?" said {h}. {He} did not know.
When {he} turned around, nothing looked the same. {H} was lost.
A gray fog came, and {h} could not see the path. {He} was lost.
Soon the sun was low, and all the paths looked alike. "I am lost," [whispered|said] {h}.

:maybe
{He} felt small and afraid. {He} held {his} {noun} tight.
{His} heart went thump, thump, thump.
"I must stay calm," {he} said to {himself}.

:para
Then {he} had an idea. {He} {signal}. [Once, twice, three times.|Again and again.|]
"My {noun}!" {he} thought. "{It} can help me." And {he} {signal}.
{H} remembered what {p} had said: "If you are lost, stay where you are and make yourself seen or
    heard." So {he} {signal}.

:let finder rescuer r.he
{f.meet} ~ {f} ~ {f.he}
{p} ~ {p} ~ {p.he}

Not far away, {finder} [looked up|stopped]. "That is {h} with the {noun}!"
Not far away, {finder} saw and heard it. "Somebody needs help," {r.he} thought.
{Finder} was on the way home and [stopped|turned around]. "I know that {noun}!" {r.he} thought.

{Rescuer} came [quickly|as fast as {r.he} could]. "Here you are! Come, I will take you home."
Soon {rescuer} stood there. "There you are," {r.he} said. "Let us go home."

{happy}
{H} [held on tight|was so glad]. Together they went home.
They walked side by side, and soon {h} saw {home}.

:maybe
"My {noun} saved me," said {h}.
After that, {h} always [looked back to remember the way|stayed on the path].
At home there was {food}, and {h} told all about it.

:maybe
{end}
"""

PLOTS = (
    Plot(name="lost", text=LOST, needs=("small",), weight=0.8),
    Plot(name="owner", text=OWNER, needs=("small",), avoids=("food",), weight=0.8),
    Plot(
        name="treasure", text=TREASURE, needs=("small",), avoids=("food",), where=("out", "water")
    ),
    Plot(
        name="way_home",
        text=HOME,
        needs=("light", "music"),
        where=("out",),
        for_young=True,
        weight=6,
    ),
)
