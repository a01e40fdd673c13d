"""Plots of weather and seasons: a garden, waiting, a storm, snow."""

from __future__ import annotations

from tools.checkpoint.stories.plots import Plot

GARDEN = """
{start} More than anything, {he} wanted to grow {a_thing}.
{start} {Day}, {e.meet} gave {him} {start_of}. "With care, you will have {a_thing}," said {e}.
{start} "This year I will grow {a_thing}," {he} said.
"How do you grow {a_thing}?" {meet} asked {e.meet}. "With water, sun and time," said {e}.

:let dig
{H} dug a little hole in the ground, put {start_of} in, and covered it with earth.
{He} found a sunny spot, dug a hole, and put {start_of} in the soft earth.
Carefully, {h} put {start_of} in the ground and patted the earth flat.

:para
{Day}, {h} went to work {at}. {dig}
{At}, the earth was soft and brown. {dig}
{dig} {He} did it {at}, where the sun was warm.

The next day {he} looked. Nothing. The day after that, still nothing.
The sun came up, and the sun went down. In the earth, nothing moved.
On the first day {he} saw nothing, on the second day nothing, and on the third a worm.
{H} put a stool beside it and watched. But watching did not make it grow.
{H} waited one day, two days, three days. There was only brown earth.
Every morning {he} looked, and every morning there was nothing to see.

:maybe
"Why does it take so long?" asked {h}. "Good things need time," said [a passing snail|the wind|{p}].
"Grow, please grow," said {h}.
"Maybe it is asleep," said {h}.

:let trouble fix
it did not rain for days, and the earth was dry as dust ~ {h} carried water every morning and
    every evening
weeds came up all around ~ {h} pulled out the weeds, one by one
a cold night came ~ {h} covered the spot with dry straw to keep it warm
a hungry snail came along ~ {h} gave the snail a leaf of its own and carried it to the hedge
a strong wind blew ~ {h} put a ring of stones around the spot

:para
Then {trouble}. So {fix}.
But {trouble}. What could {he} do? Then {fix}.
One day {trouble}. {H} did not give up, and {fix}.

And one morning, there was a tiny green tip! {happy}
Then, after a warm rain, a green tip came out of the ground. {happy}
At last something small and green peeped out. "Look, look!" called {h}.
One day {h} bent down and held {his} breath. Was that a leaf? Yes, a tiny leaf! {happy}
And what did {he} see the next morning? A little green nose in the earth! {happy}

It grew and grew. And in the end, there {was} {a_thing}!
First one leaf, then two, then ten. And at the end of summer {h} stood before {a_thing}.
"Just a little longer," {h} told {himself}. And then, one fine morning, it was there: {a_thing}!
Day by day it grew a bit more, until one day {h} had {a_thing}.
The sun shone, the weeks went by, and then {he} had {a_thing}, all {his} own.

{All} came to see it. "You waited so well," they said.
{F.meet} came to look. "How did you do that?" asked {f}. "With water and time," said {h}.
From near and far they came to see what {h} had grown.
"I grew it myself," said {h}. {happy}
{H} showed the {noun} to {f.meet}. "Will you teach me how to do it?" asked {f}.

:maybe
{H} gave a part of it to {his} friends and kept one seed for next year.
"It only needed time," said {h}.
Water, sun and time had done it, and a bit of love too.

:maybe
{end}
"""

WAIT = """
{start} {He} wanted {a_thing} so much.
{start} {Day}, {he} saw {a_thing} in a shop window. "Oh, I would love that," {he} said.
{start} "When will I get {a_thing}?" {he} asked every day.
"Is it my birthday yet?" asked {meet}. {He} wished for {a_thing}.

"You must wait for [your birthday|the first day of spring]," said {p}. "[Seven|Five|Ten] more
    [days|nights]."
"It will come," said {p}, "but you must be patient."
"Good things take time," said {p}. "Wait a little."

:para
Waiting was hard. {H} {walked} up and down. {He} sighed. {He} asked again and again.
"How slow the clock is!" said {h}. {He} looked out of the window. {He} looked at the door.
One day is not long, but it felt like a year. {H} did not know what to do with {himself}.
{H} made a line on the wall for each day. There were so few lines, and it went so slowly.
The first day was so long. So was the second. {H} counted the hours.
{H} tried to wait. {He} sat {spot} {at} and looked at the sky. Nothing happened.

:let busy made
helped {f.meet} to carry wood ~ learned that work makes time fly
picked berries {at} ~ filled a whole basket
learned a long song ~ could sing it from the first word to the last
built a tower of stones {at} ~ made it as tall as {himself}
helped {p} to sweep and cook ~ learned to make apple pie
drew a picture every day ~ had a whole row of pictures on the wall

"Do not look at the clock," said {p}. "Do something nice." So {h} {busy}.
Then {he} had an idea. To make the time go faster, {he} {busy}.
"I will do something else," {h} thought. So {he} {busy}.

And before {he} knew it, {he} {made}.
It was fun, and soon {he} {made}. {He} forgot to count the days.
{H} {made}. And all the time, the days went by.

:para
Then one morning there was a [box|parcel] at the door. In it {was} {a_thing}!
And at last the day came. {P} held out something. It was {a_thing}!
When {h} got up on the last day, something stood on the table, under a cloth. {He} lifted the
    cloth: {a_thing}!
The last night was the longest. But in the morning, there {was} {a_thing}, right beside the bed.
"Wake up!" called {p}. "Today is the day." And there {was} {a_thing}.

{happy} "I waited, and it was worth it!"
{H} looked at the {noun} for a long time without a word. Then {he} {joy}.
"Now I know why waiting is good," said {h}. "It makes the joy bigger."
{happy}
"{The_thing}!" cried {h}. {happy}

"You waited so well," said {p}.
"That went fast in the end," said {h}, and {p} laughed.
Right away, {h} wanted to {use}. And so {he} did.

:maybe
{end}
"""

STORM = """
{start} {Day}, {he} was {at} with {a_thing}. Dark clouds came up.
{start} {Day}, a big storm came. {H} was just on the way home {near} with {a_thing}.
{start} {He} had {a_thing}. {Night}, a storm came.
"Listen to the wind," said {meet}. {He} held {his} {full} {hold}.

The wind howled, and the rain came down in [buckets|sheets].
First there was a little rain, then a lot of rain. Boom, went the thunder.
Boom! The thunder rolled. Lightning lit up the sky.
The trees bent in the wind, and rain fell hard on every roof.

{H} {ran} home to {home} as fast as {he} could.
Quickly {he} ran inside and shut out the rain.
Soon {h} was safe at home. But outside it grew wild.

:para
Then {he} heard a small voice. "Please let me in!" It was {f.meet}, wet from head to toe.
Knock, knock! There stood {f.meet}, wet and cold. "May I come in?" asked {f}.
But who was that out there? It was {f.meet}, all alone and shaking.
{F.meet} came running. "I am so afraid of thunder," said {f}.

"Come in, quick!" said {h}. "Sit down by me."
"Here, take this blanket," said {h}, and made room for {f.him}.
{H} did not ask twice. {He} dried {f.him} with a towel and gave {f.him} the best seat.
"There is room for two," said {h}.
"You poor thing," said {h}. "You can stay here with me."
{H} pulled {f.him} inside and shut the door.

:let help
{light_help}
{F} was still shaking, so {h} gave {f.him} the {noun} to hold. "That always helps me," {he} said.
{H} put the {noun} between them and told the whole story of it, from the start. {F} forgot to be
    afraid.
They played a game with the {noun}. At each boom they laughed and shouted, "Boom!" too.
"Hold my {noun}," said {h}, "and count with me: one, two, three, boom!" Each time the thunder
    was further away.

{help}

:maybe
They ate {food} and got warm again.
"A storm is only wind and water," said {h}.
"You are not alone now," said {h}.

:para
And then the rain stopped. The clouds went away, and there was a big rainbow.
Bit by bit, the storm grew tired. At last all was quiet.
When they looked out, the stars were shining. The storm had gone.
In the end the sun came out, and every leaf was shining with drops.

"Thank you," said {f}. "With you, the storm was not so bad."
"It is over," said {f}. "Can I stay a bit longer all the same?" "As long as you like," said {h}.
{F} looked at the {noun}. "Now I will always think of this night when I see {them}," {f.he} said.
"We did it," said {h}. {happy}
"Will you come with me next time there is a storm?" asked {f}. "Always," said {h}.
{F} gave {h} a hug. "You are a good friend," {f.he} said.

:maybe
{end}
"""

SNOW = """
{start} {Snow_day}, everything was white. It had snowed all night!
{start} {Snow_day}, {he} looked out. "Snow!" {he} called. "Snow everywhere!"
"It is snowing!" cried {meet}. {He} pressed {his} nose to the window.
{start} It was winter, and the first snow fell, soft and slow.

{He} took {his} {full} and {ran} outside.
{H} could not wait. {He} got {his} {full}, and out {he} went.
"Today I need my {full}," said {h}, and {he} opened the door.

{At}, the snow was deep and soft.
The whole world {at} was quiet and white.
{He} went {to}. Crunch, crunch, went the snow.

:para
There {he} met {f.meet}. "Let us make a snowman!" said {f}.
{F.meet} was out in the snow too. "Shall we build something?" asked {h}.
"Come and play!" called {f.meet}. They threw snowballs and laughed.

:let part done
They rolled a big ball, and a small ball, and put one on top of the other ~ The snowman stood
    there, tall and round
They pushed the snow into a heap and made a snow house ~ The snow house was just big enough for two
They rolled one ball after another and made a whole snow family ~ There stood a papa, a mama and
    a baby of snow
They made a snow bear with big ears ~ The snow bear looked almost real

{Part}.

:let lack solved
something was still missing ~ {H} put the {noun} on it. That was just right
it looked a bit bare ~ {H} thought for a moment and gave it the {noun}. Now it looked fine
it did not look friendly yet ~ They drew a big smile on it, and {h} lent it the {noun}

{done}. But {lack}. {solved}.

:let cold warm
{F} began to shake ~ {F.his} feet were as cold as ice
{F} sneezed ~ {F.his} nose was red
The sun went down ~ It was getting very cold

:para
{cold}. {warm}. "Come home with me," said {h}.
Then {f} said, "I am cold." "Come with me and warm up," said {h}.

{H} took the {noun}, and they went to {home}, where it was warm. There they had {food}.
They took the {noun} home and sat close together. Soon they were as warm as toast.
At home, they put the {noun} by the fire to dry and ate {food}.

Outside it began to snow again. {happy}
"Snow days are the best days," said {h}.
"I hope it snows again tomorrow," said {f}.

:maybe
{end}
"""

PLOTS = (
    Plot(name="garden", text=GARDEN, needs=("grow",), where=("out",), weight=3),
    Plot(name="wait", text=WAIT, avoids=("food", "grow"), for_young=True, weight=1.2),
    Plot(
        name="storm",
        text=STORM,
        needs=("light", "bed", "music", "read", "toy"),
        avoids=("ride",),
        weight=3,
    ),
    Plot(name="snow", text=SNOW, needs=("wear", "hole", "snow"), where=("out",), weight=4),
)
