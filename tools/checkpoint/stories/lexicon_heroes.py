"""Who a story can be about: animals, people and the names they may have.

Animals, by body: `noun: adjectives; home; what it likes to eat; happy sign; ran, walked; sound`.
"""

from __future__ import annotations

BODIES = {
    "paws": "in {his} paws",
    "mouth": "in {his} mouth",
    "beak": "in {his} beak",
    "hands": "in {his} hands",
}

ANIMALS = """
# paws
dog: brown, happy, big; a small house with a red door; a bone; wagged {his} tail; ran, trotted; woof
puppy: little, playful, fluffy; a cozy basket by the door; a bone; wagged {his} tail; raced,
    trotted; yip
cat: gray, clever, soft; a house with a blue roof; a bowl of milk; purred; ran, padded; meow
kitten: tiny, fluffy, playful; a basket by the fire; a bowl of milk; purred; scampered, padded; mew
fox: little, clever, red; a den under an old oak; blackberries; swished {his} tail; ran,
    trotted; yip
bear: big, gentle, brown; a cave on the hill; honey; danced in a circle; ran, plodded; grr
rabbit: small, quick, white; a burrow under the hedge; carrots; hopped up and down; hopped,
    hopped; oh my
bunny: little, soft, shy; a burrow in the meadow; lettuce; wiggled {his} ears; hopped, hopped; oh my
mouse: tiny, brave, gray; a hole in the wall; cheese; clapped {his} paws; scurried, tiptoed; squeak
squirrel: quick, red, cheerful; a hole in a tall tree; nuts; flicked {his} tail; scampered,
    scampered; chirp
hedgehog: small, shy, round; a pile of dry leaves; mushrooms; smiled from ear to ear; hurried,
    shuffled; snuffle
badger: strong, quiet, kind; a den in the bank; berries; rubbed {his} paws; hurried, plodded; hum
otter: playful, sleek, young; a hollow by the river; fish; rolled over and over; dashed, slid; chirp
beaver: busy, young, brown; a lodge in the stream; crunchy bark; slapped {his} tail; hurried,
    waddled; hum
mole: small, shy, quiet; a tunnel under the lawn; warm soup; clapped {his} paws; hurried,
    shuffled; hum
raccoon: clever, young, curious; a hollow log; corn; clapped {his} paws; scampered, padded; chirr
wolf: young, gray, gentle; a den behind the rocks; stew; swished {his} tail; ran, padded; aroo
lion: brave, golden, young; a cave near the tall grass; stew; shook {his} mane; ran, padded; roar
tiger: striped, strong, young; a den among the bushes; stew; swished {his} tail; ran, padded; roar
panda: round, sleepy, gentle; a hut among the bamboo; bamboo; rolled over with joy; ran,
    plodded; hum
koala: sleepy, soft, gray; a nest high in a tall tree; leaves; hugged {himself}; hurried,
    shuffled; hum
kangaroo: tall, young, cheerful; a hut near the long grass; fresh grass; bounced up and down;
    hopped, hopped; boing
hamster: tiny, round, busy; a nest of straw; seeds; danced on {his} toes; scurried, tiptoed; squeak
chipmunk: tiny, striped, busy; a hole under a log; nuts; flicked {his} tail; scurried,
    scampered; chirp
monkey: cheeky, young, quick; a tree house; bananas; turned a somersault; ran, skipped; ooh
turtle: slow, patient, green; a hollow by the water; lettuce; nodded and smiled; hurried,
    plodded; hum
frog: green, small, jolly; a hut under the reeds; berry pie; jumped high in the air; hopped,
    hopped; ribbit
lizard: green, quick, tiny; a gap in the wall; melon; danced on {his} toes; dashed, crept; oh my
seal: young, gray, playful; a cave by the sea; fish; clapped {his} flippers; wriggled, slid; arf
# mouth
pig: pink, round, jolly; a pen on the farm; apples; danced in the mud; trotted, trotted; oink
sheep: woolly, gentle, white; a fold on the hill; clover; skipped in a circle; trotted, walked; baa
lamb: woolly, small, playful; a barn full of straw; clover; skipped in a circle; skipped,
    trotted; baa
goat: stubborn, white, young; a shed behind the barn; clover; kicked up {his} heels; trotted,
    walked; maa
cow: brown, gentle, kind; a warm barn; fresh grass; swished {his} tail; trotted, walked; moo
horse: strong, brown, tall; a stable by the road; oats; tossed {his} head; galloped, trotted; neigh
pony: little, spotted, proud; a stable by the field; carrots; tossed {his} head; galloped,
    trotted; neigh
donkey: gray, patient, old; a stable on the farm; thistles; kicked up {his} heels; trotted,
    plodded; hee-haw
elephant: big, gentle, gray; a hut by the wide river; bananas; lifted {his} trunk; hurried,
    plodded; toot
giraffe: tall, gentle, spotted; a very tall house; leaves; stretched {his} long neck; galloped,
    walked; hum
zebra: striped, quick, young; a hut near the tall grass; fresh grass; tossed {his} head;
    galloped, trotted; neigh
deer: shy, quiet, young; a clearing in the wood; moss and leaves; leaped into the air; leaped,
    walked; oh my
camel: tall, patient, young; a tent under the palms; dates; nodded and smiled; trotted, plodded; hum
hippo: big, jolly, round; a house by the river; melon; splashed in a puddle; trotted, plodded; hum
# beak
duck: yellow, small, cheerful; a nest by the water; bread crumbs; flapped {his} wings; hurried,
    waddled; quack
duckling: fluffy, little, yellow; a nest in the reeds; bread crumbs; flapped {his} wings;
    hurried, waddled; peep
goose: white, proud, young; a hut on the farm; corn; flapped {his} wings; hurried, waddled; honk
hen: brown, busy, kind; a coop on the farm; corn; flapped {his} wings; hurried, strutted; cluck
chick: tiny, yellow, fluffy; a coop full of straw; seeds; flapped {his} wings; hurried, hopped; peep
owl: wise, brown, young; a hole in the old oak; warm soup; blinked {his} big eyes; flew, glided; hoo
robin: small, cheerful, red; a nest in the hedge; berries; sang a short song; flew, hopped; tweet
crow: black, clever, young; a nest in a tall pine; corn; flapped {his} wings; flew, hopped; caw
parrot: green, noisy, proud; a cage with an open door; seeds; flapped {his} wings; flew, hopped;
    squawk
penguin: small, round, jolly; a house of snow; fish; flapped {his} wings; hurried, waddled; honk
swan: white, quiet, young; a nest on the lake; water plants; spread {his} wings; hurried,
    glided; honk
"""

PEOPLE = """
girl: she child: little, kind, curious; a small house by the road; pancakes
boy: he child: little, kind, curious; a small house by the road; pancakes
princess: she child: young, brave, kind; a castle on a hill; strawberry cake
prince: he child: young, brave, kind; a castle on a hill; strawberry cake
child: any child: small, quiet, cheerful; a house at the end of the lane; noodles
grandma: she adult: kind, cheerful, gentle; a cottage with roses; apple pie
grandpa: he adult: kind, cheerful, gentle; a cottage with a green gate; bean soup
baker: any adult: busy, jolly, kind; a house above the shop; warm rolls
farmer: any adult: busy, strong, kind; a farm in the valley; potato soup
fisherman: he adult: patient, old, kind; a hut by the sea; fish stew
sailor: any adult: brave, jolly, young; a cabin on a white ship; bean soup
painter: any adult: quiet, cheerful, young; a room under the roof; bread and cheese
gardener: any adult: patient, kind, busy; a cottage full of flowers; tomato soup
teacher: any adult: kind, young, cheerful; a house beside the school; apple pie
doctor: any adult: kind, busy, clever; a white house in the village; noodles
shepherd: any adult: young, quiet, patient; a hut on the hill; bread and cheese
tailor: any adult: clever, quiet, kind; a tiny shop; potato soup
miller: any adult: strong, jolly, busy; an old windmill; warm bread
king: he adult: kind, jolly, old; a castle with tall towers; plum cake
queen: she adult: kind, clever, old; a castle with tall towers; plum cake
clown: any adult: funny, cheerful, young; a bright wagon; popcorn
wizard: he adult: old, clever, forgetful; a crooked tower; mushroom soup
pirate: any adult: jolly, brave, young; a cabin on a green ship; fish stew
knight: any adult: brave, young, kind; a castle of gray stone; roast potatoes
"""

SHE_NAMES = """
Mia Lily Ruby Daisy Lucy Nina Rosie Ella Anna Zoe Molly Penny Tilly Poppy Clara Ivy Hazel Nora Ada
Mimi Lola Betty Wanda Olive Luna Dora Maya Elsie Jane Willow Amy Kiki Fern Bella Tess
"""
HE_NAMES = """
Tom Max Ben Sam Leo Finn Oscar Jack Toby Milo Hugo Otto Henry Theo Barney Felix Rufus Pip Gus Bruno
Ned Archie Teddy Charlie Monty Walter Jasper Oliver Eli Noah Peter Louis Bob Rory Dex
"""
