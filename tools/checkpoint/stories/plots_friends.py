"""Plots about friends: sharing, saying sorry, a first meeting, a swap."""

from __future__ import annotations

from tools.checkpoint.stories.plots import Plot

SHARE = """
{start} {Day}, {he} had {a_thing} all to {himself}.
{start} {Day}, {he} came {to} with {a_thing}.
{start} {He} had {a_thing} and was very proud of {them}.
"{This} {is} mine, all mine!" said {meet}. {He} held {a_thing} {hold}.
{start} {His} aunt had sent {him} {a_thing}.

{F.meet} came up. "What a nice {noun}! May I have a turn?" asked {f}.
{F.meet} saw the {noun}. "Oh, please, may I try too?" {f.he} asked.
{F.meet} was {at} too, and {f.he} had [nothing|no {noun}]. "Will you share with me?" {f.he} asked.

"No," said {h}. "{It} {is} mine."
{H} shook {his} head. "No, no, no," {he} said. "Go away."
But {h} did not want to share. {He} turned {his} back and said nothing.
"Maybe tomorrow," said {h}, and held the {noun} tight.

{F} [hung {f.his} head|looked very sad|sniffed] and [went away|sat down far away].
{F} did not say a word. {F.he} went and sat [alone|by {f.himself}] {spot}.
"Oh," said {f} in a small voice. And {f.he} went away.

:para
Now {h} had the {noun} all to {himself}. But it was no fun. It was too quiet.
{H} was alone now. [Soon|After a while] {he} felt a bit bored, and then a bit sorry.
{H} looked at the {noun}. Somehow {it} did not make {him} happy any more.
For a while {h} was glad. Then {he} saw how sad {f} looked, and {his} heart felt heavy.

:let reason
Everything is more fun with two.
It is no fun to be alone.
I was not kind.
A friend is better than any {noun}.
I would be sad too.

"{reason}" {he} thought. So {he} went over to {f}.
"{reason}" {he} said softly, and [got up|{ran} after {f}].
{He} thought and thought. "{reason}" And {he} looked for {f}.

:para
"I am sorry," said {h}. "Come, let us share."
"Would you like a turn now?" asked {h}. "I am sorry I said no."
"Here," {he} said and held out the {noun}. "You can go first."
"We can share," {he} said. "First you, then me."

{F} {f.joy}. "Really? Thank you!"
{F.he} looked up and smiled. "[Yes, please|I would love that|Oh, yes]!"
{F} dried {f.his} eyes. "Do you mean it?" {f.he} asked. "Yes," said {h}.
It took {f} only a moment to say yes.
At once {f} was happy again. {F.he} {f.joy}.

So they shared the {noun} [all afternoon|until it got dark], [and both laughed a lot|and nobody
    was sad any more].
And from then on they shared. It was twice as much fun.
They took turns. Now and then they forgot whose turn it was, and that was fine too.
They shared, and it was the best [afternoon|day] in a long time.

:maybe
The next day, {f} brought {gift} and shared that too.
"Sharing is easy," said {h}. "You only have to start."
Then they shared {food} as well.

:maybe
{end}
"""

SORRY = """
{start} {His} friend, {f.meet}, had {a_thing}.
{start} {Day}, {he} went to see {f.meet}, who had {a_thing}.
{start} {Day}, {f.meet} showed {him} {a_thing}. "Please be careful with {them}," said {f}.
{start} {F.meet} lived next door. {F.he} had {a_thing}, and {h} liked {them} very much.

:let act
picked {them} up without asking
took {them} down from the shelf
played with {them} when nobody was looking
wanted to see how {it} worked
held {them} with just one finger
took {them} and turned round and round

{Day}, when {f} was not there, {h} {act}.
{F} went to get something to drink. So {h} {act}.
{H} could not wait. While {f} was away, {he} {act}.

Crack! {Broke}.
Then there was a small sound, and {broke}.
Oh no! All at once, {broke}.
But {he} was too wild, and {broke}.
{He} was not careful, and then {broke}.

:para
{H} [got a big fright|went hot and cold|stood very still]. "What will {f} say?" {he} thought.
{His} heart beat fast. {He} put the {noun} {spot} and hid.
Quickly {he} hid the {noun} and went home. But {he} could not eat and {he} could not sleep.
"Maybe nobody will see it," {he} thought. But {he} felt bad inside.

:maybe
All night {he} thought about it.
"I must tell the truth," {he} said at last.
It was hard, but {he} knew what was right.
{P} saw {his} face. "It is always best to tell the truth," {p.he} said.

:para
Then {h} went to {f}. "I broke your {noun}," {he} said. "I am so sorry."
When {f} came, {h} looked at the floor. "It was me," {he} said. "I broke the {noun}. I am sorry."
{H} took a deep breath. "I did something wrong," {he} told {f}. "Your {noun} {is} broken. I am
    sorry."

{F} was quiet for a while. Then {f.he} said, "Thank you for telling me."
At first {f} was sad. But then {f.he} said, "It was brave of you to tell me."
"I am a little cross," said {f}, "but I am glad you told me the truth."
"Oh, my poor {noun}," said {f}. "But it is good that you said it yourself."

"May I help to mend {them}?" asked {h}. So they sat down and {mended}.
They got a box of tools. {H} held the light, {f} {mended}, and then they looked at it from all
    sides.
"I know how to make it right," said {h}. And {he} did just what {he} said: {he} {mended}.
"We can fix {them}," said {h}. Together they {mended}.
"Let us mend {them} together," said {f}. {H} helped, and they {mended}.
{H} got everything they needed, and together they {mended}.

Soon the {noun} {was} as good as new.
You could hardly see that {it} had been broken.
And then the {noun} {was} whole again.

:maybe
{happy} They were friends, just as before.
"Next time I will ask first," said {h}.
"Now you may play with {them} too," said {f}.
{H} felt light again, for now nothing was hidden.

:maybe
{end}
"""

NEW_FRIEND = """
{start} {He} was new {at} and did not know anybody yet.
{start} {He} was shy and had no friends yet.
{start} {Day}, {he} sat alone {at} with {a_thing}.
{start} {He} was often alone. "I wish I had a friend," {he} said to {himself}.

:let has_line
{He} always carried {a_thing} with {him}.
That day {he} had {a_thing} with {him}.
{His} best thing was {a_thing}.

{has_line}
{has_line} But {it} could not talk.
{has_line} It was nice, but it was not the same as a friend.

:para
{At}, {he} saw {f.meet}. {F.he} was alone too.
Then {f.meet} came along and sat down {spot}.
{Day}, {he} saw {f.meet} {spot}, all alone.
Not far away sat {f.meet}. {F.he} looked nice.

{H} wanted to say hello, but {he} did not dare.
"What if {f.he} does not like me?" thought {h}.
{He} opened {his} mouth, but no word came out.
{H} looked at {f}. {F} looked at {h}. Nobody said a word.

:let deed
the {noun} slipped out of {his} grip and fell right at {f.his} feet
the {noun} fell down, plop, right in front of {f.him}
{f} sneezed so loudly that they both had to laugh
it began to rain, and they both ran under the same roof
a bee flew around them both, and they both jumped up
{f} pointed at the {noun} and smiled

:para
Just then {deed}.
{H} was about to go home. Then {deed}.
Nobody knew what to say. But suddenly {deed}.
And what happened next? {Deed}.
But then {deed}.
And then, all of a sudden, {deed}.

"Is that your {noun}?" asked {f}. "I like {them} a lot."
They both said hello at the same time. Then {f} asked, "May I see your {noun}?"
{F} [smiled|grinned]. "I always wanted {a_thing}," {f.he} said.
"What a nice {noun} you have," said {f}.
"Would you like to see my {noun}?" asked {h} in a small voice. "Yes, please!" said {f}.
"I have {a_thing}," said {h}. "Do you want to look?" {F} came closer at once.

"I am {f.name}," {f.he} said. "[Who are you?|What do you like to do?|Do you like {food}?]"
"My name is {f.name}. Do you want to play with me?" {f.he} asked.
"You can call me {f.name}," {f.he} said. "I am new here too."

{H} nodded. It was not hard at all. And so they played until [it got dark|the sun went down].
One word led to the next, and soon {h} had told {f.name} all about {home}.
From hello to a game, it was only a small step. How they laughed!
{H} showed {f.name} the best place {at}, {spot2}. There they sat and talked until evening.
Then they talked and played. {H} was not shy any more.
{H} showed {f.him} the {noun}, and soon they were laughing as if they had always known each other.
They found out that they both liked {food}.

:maybe
"Will you come again tomorrow?" asked {h}. "Of course," said {f.name}. "We are friends now."
"Now I have a friend," thought {h}. {happy}
Now {he} had {a_thing} and a friend. The friend was the best.

:maybe
{end}
"""

SWAP = """
:let other why
a [tin|yellow] trumpet ~ it was much too loud
a box of paints ~ the paint got all over the floor
a jar of beetles ~ the beetles kept getting out
a big rubber duck ~ it did not fit anywhere
a bag of plums ~ after two days the bag was empty
a wooden sword ~ it was no fun to play with it alone
a pot with a cactus ~ it was too prickly to hug

{start} {He} had {a_thing}, but {he} had grown tired of {them}.
{start} {Day}, {he} took {his} {full} to the swapping day {at}.
"I have had this {full} for so long," said {meet}. "I want something new."

{F.meet} came along with {other}. "Shall we swap?" asked {f}.
{At}, {he} met {f.meet}, who had {other}. "I would give you this for your {noun}," said {f}.
There stood {f.meet} with {other}. "Your {noun} for this?" {f.he} asked.

"Yes!" said {h}, and they swapped. {H} went home with {other}.
{H} did not think for long. "It is a deal," {he} said, and gave {f.him} the {noun}.
They shook on it. Now {f} had the {noun}, and {h} had {other}.

:para
At first it was fun. But {why}.
For one whole evening {he} was glad. After that, {why}.
But things looked different at home: {why}.
The first day was fine. But then {he} saw that {why}.
Soon {he} found out that {why}.

{H} thought of {his} old {noun}. How {he} had loved to {use}!
The place where the {noun} had been was empty. {H} looked at it again and again.
Everything reminded {him} of the {noun}.
"I miss my {noun}," said {h}. "Why did I ever give {them} away?"
At night {he} lay awake and thought about the {noun}.

:para
The next morning, {he} {walked} to {f}. "May I have my {noun} back?" {he} asked.
So {he} went to find {f}. "I am sorry," {he} said, "but I miss my {noun}."
That same day {he} went back to {f}. "Could we swap back?" {he} asked.

{F} laughed. "I wanted to ask you the same thing!" {f.he} said.
"I am so glad," said {f}. "I miss my old things too."
"Of course," said {f}. "A friend is more important than a swap."

So they swapped back. {happy}
Back went one, and back came the other. {happy}
"Here you are, old {noun}," said {h}. {happy}
And {h} got {his} {noun} back. {happy}
{H} held the {noun} {hold} and smiled. It felt like coming home.

:maybe
Sometimes the best thing is the one you already have.
"You can come and use {them} any time," said {h}.
From then on, {he} took very good care of {them}.

:maybe
{end}
"""

PLOTS = (
    Plot(name="share", text=SHARE, needs=("toy", "food", "ride", "music")),
    Plot(name="sorry", text=SORRY, needs=("breaks",)),
    Plot(name="new_friend", text=NEW_FRIEND, needs=("small", "toy"), weight=0.7),
    Plot(name="swap", text=SWAP, needs=("small", "toy"), avoids=("food", "grow"), weight=0.8),
)
