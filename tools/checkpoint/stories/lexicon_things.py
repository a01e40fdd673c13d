"""What a story can be about, by groups that share tags and adjectives.

A group starts with `# tags; adjectives`. A thing is `noun: more adjectives; use; break; mend`,
    where
use and mend start with a verb and its past (`fly/flew it`), and all but the noun may be missing.
`<a loaf of>` before a noun that takes no plain `a`; a noun in `*` is plural.

Tags: `toy` to play with, `small` to carry and lose, `wind` may be blown away, `throw`, `food`,
`bake`, `grow`, `music`, `light`, `wear`, `find` in nature, `read`, `reach` to pull or lift
somebody out, `bed`, `ride`, `make` by hand, `float`, `snow`, `out` used outdoors, `paint`, `hole`
to dig or carry earth and water, `big`.
"""

from __future__ import annotations

THINGS = """
# toy small wind make out; red, blue, yellow, green, orange, purple, bright, paper, big
kite: ; fly/flew it in the wind; the string snapped; tie/tied on a new string
balloon: round; hold/held it by its string
pinwheel: shiny; spin/spun it in the breeze; the stick snapped; glue/glued on a new stick
paper plane: white; send/sent it through the air; one wing tore; tape/taped the wing
# toy small throw out; red, blue, yellow, green, orange, striped, bouncy, little, new
ball: round; bounce/bounced it on the ground
frisbee: ; throw/threw it far
hoop: big; roll/rolled it down the path; the hoop bent; press/pressed it round again
yo-yo: wooden; swing/swung it up and down; the string snapped; tie/tied on a new string
# toy small paint; red, blue, green, yellow, wooden, little, old, new, shiny
toy car: fast; race/raced it along the floor; a wheel came off; push/pushed the wheel back on
toy train: long; push/pushed it along its track; a wheel came off; push/pushed the wheel back on
toy truck: big; load/loaded it with pebbles; a wheel came off; push/pushed the wheel back on
robot: tin; wind/wound it up with its key; one arm came off; screw/screwed the arm back on
top: round; spin/spun it on the floor; the tip snapped; glue/glued on a new tip
puzzle: hard; put/put it together on the floor; one piece tore; tape/taped the piece
rocking horse: tall; rock/rocked on it to and fro; a leg cracked; glue/glued the leg
puppet: funny; make/made it dance; a string broke; tie/tied on a new string
# toy small bed make; soft, brown, little, old, fluffy, pink, blue, floppy
doll: pretty; rock/rocked it to sleep; an arm came off; sew/sewed the arm back on
teddy bear: ; hug/hugged it tight; one ear came off; sew/sewed the ear back on
toy rabbit: white; hug/hugged it tight; one ear came off; sew/sewed the ear back on
blanket: warm, striped; curl/curled up under it; a corner tore; sew/sewed on a patch
pillow: white; rest/rested on it; the seam split; stitch/stitched the seam
quilt: warm, striped; curl/curled up under it; a corner tore; sew/sewed on a patch
# toy float paint small out; red, blue, white, green, yellow, wooden, little, old
boat: ; sail/sailed it on the water; the mast snapped; glue/glued on a new mast
toy boat: ; sail/sailed it on the water; the sail tore; sew/sewed up the sail
# ride float out paint big; red, blue, white, green, wooden, little, old
rowboat: ; row/rowed it on the water; an oar cracked; tie/tied the oar with strong rope
raft: big; ride/rode it on the water; a rope came loose; tie/tied a tight knot
canoe: long; paddle/paddled it on the water; the paddle cracked; carve/carved a new paddle
# ride out paint toy big; red, blue, green, yellow, shiny, old, new, little
bicycle: ; ride/rode it down the lane; the chain came off; put/put the chain back on
scooter: fast; ride/rode it down the path; a wheel came loose; tighten/tightened the wheel
wagon: wooden; pull/pulled it along the path; a wheel came off; put/put the wheel back on
tricycle: ; ride/rode it round and round; a pedal came off; screw/screwed the pedal back on
cart: wooden; pull/pulled it along the path; a wheel came off; put/put the wheel back on
# ride out snow paint toy big; red, blue, wooden, fast, old, new, long
sled: ; ride/rode it down the slope; a runner cracked; tie/tied the runner with rope
# small wear make wind; red, blue, green, yellow, purple, striped, warm, soft, new, old
hat: tall, straw; wear/wore it every day; the brim tore; sew/sewed the brim
cap: ; wear/wore it every day; the brim tore; sew/sewed the brim
scarf: long, woolly; wear/wore it every day; the end came loose; knit/knitted the end again
ribbon: silk, shiny; wear/wore it in a bow
*mittens: woolly, snug; wear/wore them in the cold; a thumb came loose; knit/knitted a new thumb
cape: long; wear/wore it like a brave knight; the ribbon tore; sew/sewed on a new ribbon
# small wear make; red, blue, green, brown, warm, soft, new, old, big
coat: long; wear/wore it every day; a button came off; sew/sewed the button back on
sweater: woolly; wear/wore it every day; a hole came in the sleeve; darn/darned the sleeve
*boots: rubber, shiny; jump/jumped in puddles in them; a heel came off; glue/glued the heel
*shoes: shiny, tiny; dance/danced in them; a lace broke; put/put in a new lace
apron: white; wear/wore it to cook; the pocket tore; sew/sewed on the pocket
*socks: striped; wear/wore them to bed; a hole came in one toe; darn/darned the toe
# small wear; golden, silver, shiny, pretty, tiny, old, lovely
crown: paper; wear/wore it proudly; the points bent; bend/bent the points straight
ring: ; wear/wore it with pride
necklace: long; wear/wore it with pride; the string broke; thread/threaded the beads again
bracelet: ; wear/wore it with pride; the clasp broke; fix/fixed the clasp
watch: round; tell/told the time with it; the strap tore; sew/sewed the strap
*glasses: round; read/read small words with them; one side came off; screw/screwed the side on
# small; shiny, silver, golden, tiny, round, old, brass
coin: ; spin/spun it on the table
key: big; open/opened a little box with it
button: red, blue; keep/kept it in a safe place
bead: red, blue; keep/kept it on a string
marble: blue, green, glass; roll/rolled it along the floor
mirror: ; look/looked into it; the frame came off; glue/glued the frame back on
compass: ; find/found the way with it; the lid came off; screw/screwed the lid back on
magnet: red; pick/picked up pins with it
# small find; smooth, pretty, white, tiny, lovely, big
shell: pink, striped; hear/heard the sea in it
stone: round, gray, flat; keep/kept it in a safe place
pebble: round, gray, flat; keep/kept it in a safe place
feather: blue, long, soft; tickle/tickled friends with it
pine cone: brown, round; roll/rolled it down the hill
leaf: red, golden, yellow; press/pressed it in a book
acorn: brown, round; keep/kept it in a safe place
egg: speckled, blue, warm; keep/kept it safe and warm
pearl: shiny, round; keep/kept it in a safe place
stick: long, straight, strong; draw/drew in the sand with it
# food bake small; big, sweet, warm, fresh, round, tasty
cake: pink, tall; share/shared it with friends
pie: golden; share/shared it with friends
cookie: crunchy; share/shared it with friends
muffin: golden; share/shared it with friends
bun: sticky; share/shared it with friends
pancake: golden, flat; share/shared it with friends
pizza: cheesy; share/shared it with friends
<a loaf of> bread: crusty; share/shared it with friends
# food grow small; big, red, ripe, juicy, sweet, shiny, round
apple: green, golden; crunch/crunched it up
pear: green, yellow; munch/munched it up
peach: soft; munch/munched it up
plum: purple; munch/munched it up
strawberry: tiny; nibble/nibbled it slowly
tomato: ; eat/ate it with a pinch of salt
melon: green; eat/ate it in big slices
# food grow small; big, fresh, crunchy, orange, tasty, long
carrot: ; crunch/crunched it up
pumpkin: round, huge; make/made soup from it
potato: brown, round; bake/baked it by the fire
turnip: white, huge; make/made soup from it
# food small; warm, sweet, tasty, fresh, little
sandwich: cheese, big; eat/ate it for lunch
<a pot of> soup: hot, tomato; eat/ate it with a big spoon
<a jar of> honey: golden, sticky; spread/spread it on bread
<a jar of> jam: red, sticky; spread/spread it on bread
<a cup of> cocoa: hot, creamy; sip/sipped it slowly
# seed small find; tiny, little, brown, round, special
seed: black; plant/planted it in the ground
bean: green; plant/planted it in the ground
bulb: ; plant/planted it in the ground
# grow; red, yellow, white, pink, purple, lovely, tall, little
flower: ; water/watered it every day
rose: ; water/watered it every day
sunflower: golden; water/watered it every day
tulip: orange; water/watered it every day
# grow; little, young, green, tall, lovely, strong
tree: ; water/watered it every day
# music small; shiny, silver, golden, old, new, little, loud
bell: brass, tiny; ring/rang it loudly; the clapper fell out; hook/hooked the clapper back in
flute: wooden; play/played a tune on it; the end cracked; glue/glued the end
whistle: tin, red; blow/blew it loudly; the string snapped; tie/tied on a new string
horn: brass; blow/blew it loudly; the mouth bent; bend/bent it straight
trumpet: brass; play/played a tune on it; a key came off; screw/screwed the key back on
music box: wooden; wind/wound it up and listen/listened; the lid came off; screw/screwed the lid on
# music toy; red, blue, old, new, big, little, wooden
drum: round, loud; beat/beat it with two sticks; the skin tore; stretch/stretched on a new skin
guitar: ; play/played a tune on it; a string broke; put/put on a new string
fiddle: brown; play/played a tune on it; a string broke; put/put on a new string
banjo: round; play/played a tune on it; a string broke; put/put on a new string
accordion: ; play/played a tune on it; a strap tore; sew/sewed the strap
# light small; little, old, golden, bright, small, brass, blue
lamp: ; light/lit up the dark with it; the handle came off; screw/screwed the handle back on
lantern: red, paper; light/lit up the dark with it; the handle came off; hook/hooked the handle on
candle: white, tall; light/lit up the dark with it
flashlight: ; light/lit up the dark with it; the cap came off; screw/screwed the cap back on
# read small; old, new, little, thick, big, dusty, blue, red
book: ; read/read it from end to end; a page came loose; glue/glued the page back in
notebook: ; write/wrote in it every day; a page came loose; glue/glued the page back in
picture book: bright; look/looked at it for hours; a page tore; tape/taped the page
# read wind small make; little, white, blue, folded, old, secret
letter: long; read/read it again and again; a corner tore; tape/taped the corner
map: yellow; find/found the way with it; a corner tore; tape/taped the corner
card: pink; read/read it again and again; a corner tore; tape/taped the corner
picture: bright; hang/hung it on the wall; the frame cracked; glue/glued the frame
# wind out small; red, blue, yellow, green, striped, big, old, new
umbrella: spotted; walk/walked in the rain with it; a rib bent; bend/bent the rib straight
flag: tall; wave/waved it in the air; the pole snapped; tie/tied on a new pole
# reach out; long, strong, old, new, thick, brown
rope: ; swing/swung on it; one end frayed; tie/tied a firm knot in the end
ladder: wooden, tall; climb/climbed up it; a rung broke; nail/nailed on a new rung
net: green, big; catch/caught leaves in it; a big hole came in it; knot/knotted the hole shut
# reach small paint hole; big, little, old, new, blue, red, strong
basket: brown, round; carry/carried berries in it; the handle came off; tie/tied the handle back on
bucket: tin, yellow; carry/carried water in it; the handle came off; hook/hooked the handle back on
# small hole out; little, old, new, red, blue, shiny, strong
shovel: ; dig/dug in the ground with it; the handle cracked; tie/tied the handle with string
rake: ; rake/raked up leaves with it; a tooth came off; nail/nailed the tooth back on
watering can: green, tin; water/watered the flowers with it; the spout came off; screw/screwed it on
wheelbarrow: green; push/pushed it up and down; the wheel came off; put/put the wheel back on
# small; little, old, new, blue, red, white, pretty, big
cup: ; drink/drank milk from it; the handle came off; glue/glued the handle back on
teapot: round; pour/poured tea from it; the spout broke off; glue/glued the spout back on
bowl: wooden, round; eat/ate porridge from it; one side cracked; glue/glued the crack
spoon: silver, wooden; stir/stirred soup with it
jar: glass; keep/kept treasures in it; the lid cracked; carve/carved a new lid
box: wooden, square; keep/kept treasures in it; the lid came off; screw/screwed the lid back on
bag: brown; carry/carried books in it; the strap tore; sew/sewed the strap
backpack: green; carry/carried books in it; the strap tore; sew/sewed the strap
clock: round; tell/told the time with it; a hand came off; put/put the hand back on
broom: long; sweep/swept the floor with it; the handle broke; nail/nailed on a new handle
brush: soft; paint/painted pictures with it; the handle broke; tie/tied it with string
pencil: yellow, long; draw/drew pictures with it; the tip snapped; sharpen/sharpened the tip
crayon: yellow, green; draw/drew pictures with it
fan: paper; wave/waved it on hot days; the paper tore; tape/taped the paper
*scissors: shiny; cut/cut paper stars with them; a screw came loose; tighten/tightened the screw
# paint big make; little, old, new, blue, green, wooden, white
chair: rocking; sit/sat in it by the window; a leg broke; nail/nailed the leg back on
stool: round; sit/sat on it; a leg broke; nail/nailed the leg back on
birdhouse: ; hang/hung it in a tree; the roof came off; nail/nailed the roof back on
swing: ; swing/swung on it; a rope tore; tie/tied on a new rope
tent: ; sleep/slept in it; a pole snapped; tie/tied on a new pole
bench: long; sit/sat on it; a leg broke; nail/nailed the leg back on
"""
