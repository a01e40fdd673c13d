"""Phrases that many plots share: openings, feelings, thanks, endings.

`start` is a first sentence that brings in the hero; `go` brings the hero to the place; `end`
    closes.
"""

from __future__ import annotations

from tools.checkpoint.stories.lexicon import table

_TEXT = """
# start
{start_line}
{start_line} {trait}
{start_line}
{start_line} {trait}
# trait
{H} was always humming [a song|a tune] of {his} own.
{He} was [a bit|rather|very] shy, but [very kind|full of ideas].
Nobody could [laugh|whistle|tell jokes] like {h}.
{H} liked [rain|wind|sun|fog|clouds] more than anyone else.
{He} asked [a hundred|so many|a lot of] questions every day.
{H} was never in a bad mood for long.
{H} loved the smell of [grass|bread|rain|pine trees|apples].
{His} favorite food was {food}.
{H} knew every [stone|path|tree|corner] {near}.
{H} was good at [counting|climbing|waiting|listening|singing|hiding], but not so good at
    [sitting still|getting up early|tidying up|keeping quiet].
{He} had a [big|kind|warm|brave] heart.
{H} was [small|young] once, and that is when this story happened.
{His} friends said that {he} was the [kindest|funniest|quickest] {hero} they knew.
{H} liked mornings best, when everything was [new|fresh|quiet].
Each morning {he} said hello to the [sun|birds|clouds|bees].
{H} believed that every day had a surprise in it.
{He} talked to the [flowers|clouds|ants|snails] when {he} was alone.
{H} was hungry most of the time.
{He} could [stand on one leg|count to a hundred|wink|say the ABC backward], and {he} was proud
    of that.
Once a week {h} [had a bath|made up a poem|learned a new word], even in winter.
{H} liked to help, and {he} liked to laugh.
{He} was often [late|sleepy|in a hurry], but nobody minded.
{He} always took the long way round, to see more of the world.
When {he} was [glad|in a good mood], everyone could hear it.
# start_line
Once upon a time, there was {meet}. {He} lived in {home}.
Once upon a time, {meet} lived {near}.
Once there was {meet} who lived {near}.
There was once {meet} who loved {food}.
There once lived {meet} in {home}.
In {home} lived {meet}.
In {home}, there lived {meet}.
{Near}, there lived {meet}.
{Meet} lived in {home}.
{Meet} had a home in {home}.
This is the story of {meet}.
This is a story about {meet}. {He} lived {near}.
Long ago, {meet} lived in {home}.
Not so long ago, {meet} lived {near}.
Have you heard about {meet}? {He} lived in {home}.
Do you know who lived {near}? It was {meet}.
Far away, {near}, lived {meet}.
Every morning, {meet} woke up in {home} and [stretched|yawned|smiled|looked out].
Every day after breakfast, {meet} [looked out at the sky|took a little walk|went to see what was
    new].
"{Sound}!" said {meet}. {He} had just [woken up|finished breakfast|eaten {food}].
"What a [lovely|fine|beautiful] day!" said {meet}.
{Meet} liked [two things|nothing] [more than {food}|better than a new day].
Everyone {near} knew {meet}.
Let me tell you about {meet}. {He} lived {near}.
Once, in {home}, {meet} woke up [early|late|with a smile|in a good mood].
# day
one morning, when the dew was still on the [grass|leaves]
one afternoon, when the [bees were humming|shadows were long|air was warm]
one [clear|bright|mild|golden] autumn day
one day, after a week of rain
one day in [May|June|July|September|April]
on [Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday]
one day, when the sky was [blue|as blue as a plum|full of little clouds]
on the very next day
on a day with a [light|soft|playful] breeze
soon after sunrise
just before noon
before lunch one day
the day after a big rain
one day, just as the clock struck [nine|ten|three]
one [sunny|bright|warm|fine|windy|cool|quiet] [morning|afternoon|day]
one [spring|summer|autumn] [morning|day|afternoon]
one day
one [Monday|Saturday|Sunday] [morning|afternoon]
early one morning
right after breakfast
after lunch one day
one morning, when the [birds were singing|sun was up|grass was wet]
on a [warm|bright|cool|quiet|windy] [day|morning|afternoon]
on the first day of [spring|summer|autumn]
# night
one night
one [dark|quiet|starry|cool|windy] night
late one evening
one evening, when the moon was [up|round|high]
after supper one evening
# happy
{He} {joy}.
{H} {joy}.
{H} {joy} [happily|with joy].
{He} was so happy that {he} {joy}.
{H} [smiled|laughed|beamed|felt very happy].
{H} felt [warm inside|as light as a feather|proud and happy|happy all over].
A big smile came over {his} face.
"{Sound}!" said {h}.
"{Sound}, {sound}!" [said|called|cried] {h}.
{H} did a little dance.
{H} laughed with joy.
{H} jumped for joy.
{H} could have hugged the whole world.
{H} beamed like the sun.
{H} felt ten feet tall.
{His} eyes shone [like stars|with joy|like two lamps].
{His} face [lit up|shone|was one big smile].
{He} was [so|very] happy.
{He} felt happy from head to toe.
{He} laughed and sang.
"Oh, how wonderful!" said {h}.
"I am so happy!" [said|cried|called] {h}.
"This is [wonderful|great|the best day ever]!" [cried|said|called] {h}.
{H} could hardly believe it.
{His} heart [sang|jumped for joy|felt light].
How happy {h} was!
# sad
"What a pity," said {h}, and {his} eyes were wet.
{His} [lip shook|chin shook|eyes grew wet].
{H} did not know whether to cry or to shout.
{H} felt as gray as a rainy day.
{H} sighed a long, deep sigh.
How sad {h} was!
{His} heart [sank|grew heavy].
"This is not a good day," {he} said.
{H} sat down on the ground and thought about it.
{H} felt [very|so|rather|quite] sad.
A [tear|big tear|little tear] rolled down {his} cheek.
{H} [sat down and sighed|hung {his} head|was close to tears].
{He} [wanted to cry|felt a lump in {his} throat|did not know what to do].
"Oh no!" [cried|said|whispered] {h}.
"Oh dear, oh dear," [said|sighed|whispered] {h}.
{H} was [very sad|upset|unhappy].
# thanks
"Thank you!" said {h}. "[You are so kind|You are a good friend|I will not forget this]."
"Thank you, thank you!" [said|cried|called] {h}.
{H} said thank you [again and again|three times|with a big smile].
{H} gave {f.him} a [big|warm|long|gentle] hug.
"How kind you are!" said {h}.
"I could not have done it [without you|alone]," said {h}.
# snow_day
one [cold|winter|gray|frosty] morning
early one winter morning
one morning in [December|January|winter]
# gift
a bowl of berries
a bunch of flowers
a warm bun
a big [red|yellow] apple
a bag of nuts
a jar of plum jam
a [drawing|picture] of the two of them
# end
And they all lived happily ever after.
And that was the end of a [very good|very busy|happy|lovely] day.
And if you listen closely, you may hear {him} [singing|laughing] still.
What a day it had been!
It was the best day of the [week|month|summer|year].
Then {h} went home to {home} and ate {food}.
That night, {h} slept very well.
That night, {h} fell asleep with a smile.
That evening, {he} told {his} friends all about it.
And from that day on, {h} was [a little wiser|a good friend to all|a bit more grown-up].
Then it was time for supper.
The sun went down, and {h} went home, [tired|sleepy] and happy.
The stars came out, one by one, and everything was [still|quiet|well].
{H} {walked} home with a [song|smile|happy heart].
And that is why {h} always smiled when {he} saw [a|the] {noun}.
It was late now. The birds were quiet, and so was {h}.
Soon it was evening, and {h} had {food} for supper.
At supper, {h} ate [two plates|three helpings|a lot] of {food}, for {he} was very hungry.
And when {h} went to bed, {he} was still smiling.
And if {h} has not moved away, {he} still lives in {home}.
It had been a long day, but a good one.
When the moon came up, {h} was already asleep in {home}.
{H} told the story to {p} that night, from start to end.
And whenever {h} thought of that day, {he} had to smile.
Some days are just like that: they start badly and end well.
Some days are too good to forget. This was one.
Who would have thought that {a_thing} could do all that?
All because of {a_thing}!
{H} never forgot that day.
"I can't wait for tomorrow," said {h}, yawning.
"What a day," said {h}, and {joy} one more time.
And what did {h} dream of that night? Of {a_thing}, of course.
And the {noun}? {It} had a good place in {home}.
Outside, the crickets sang, and inside, {h} slept.
And now it is time to sleep, for {h} and for you too.
So if you ever meet {meet}, ask about the {noun}.
[Small|Little] friends can do big things.
A good heart is worth more than gold.
It was good to be {h} that day.
The wind sang softly, and {h} was glad to be home.
{H} looked up at the sky. There was not a cloud to be seen.
The next day was a good day too.
And that is how it was. Every word is true!
And that was all. What a fine day!
The end of the day was the best part.
Good night, little {hero}.
"Tomorrow will be a good day too," {he} said.
And so the day ended well.
"""


def read_pools(text: str) -> dict[str, tuple[str, ...]]:
    """The phrases under each `# name`."""
    pools: dict[str, list[str]] = {}
    name = ""
    for row in table(text):
        if row.startswith("# "):
            name = row[2:]
            pools[name] = []
        else:
            pools[name].append(row)
    return {name: tuple(rows) for name, rows in pools.items()}


POOLS = read_pools(_TEXT)
