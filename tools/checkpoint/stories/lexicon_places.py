"""Where a story may happen: `with preposition: kind; three or more spots where a thing may lie`."""

from __future__ import annotations

PLACES = """
at the pond: water; among the reeds, behind a flat stone, under the willow, beside the little dock
by the river: water; under the bridge, among the tall reeds, behind a big rock, on the muddy bank
at the lake: water; under an old boat, beside the dock, in the tall grass, behind a log
at the beach: water; beside a sand castle, under a heap of seaweed, behind a rock, near the tide
    pool
by the sea: water; under a fishing net, between two rocks, behind a barrel, in the warm sand
by the stream: water; between two stones, under a fern, beside a fallen log, behind the bushes
at the harbor: water; behind a barrel, under a coil of rope, beside a fishing boat, under the bench
in the forest: out; under a fern, in a hollow log, behind a mossy rock, among the roots of a tree
in the woods: out; under a bush, behind an old stump, in a hollow tree, among the ferns
in the meadow: out; in the tall grass, behind a clump of daisies, under a bush, beside the fence
in the garden: out; under the rose bush, behind the watering can, among the beans, beside the gate
in the park: out; under the bench, behind the fountain, beside the swings, in a heap of leaves
in the field: out; behind a haystack, beside the scarecrow, in the long grass, under the hedge
in the orchard: out; under a ladder, behind the apple tree, in the long grass, beside a crate
on the hill: out; behind a gray stone, in the clover, under the lone tree, beside the path
on the farm: out; behind the barn, under the cart, beside the well, in the straw
at the playground: out; under the slide, in the sandbox, behind the swings, beside the bench
in the yard: out; under the porch, behind the shed, beside the gate, near the wood pile
in the village: out; beside the well, under the market cart, behind the church, on the stone steps
in the valley: out; under the old bridge, behind a boulder, among the flowers, beside the path
in the jungle: out; under a giant leaf, behind a vine, among the roots of a tree, beside a puddle
at the zoo: out; under the bench, behind the ticket booth, beside the fountain, near the gate
at the fair: out; under a tent flap, behind the popcorn cart, beside the carousel, under a bench
at the market: out; under a stall, behind a crate of apples, beside the flower cart, under a basket
in the old barn: in; under the hay, behind the ladder, beside the cart, in the feed box
in the kitchen: in; under the table, behind the stove, in the cupboard, beside the flour jar
in the attic: in; under a dusty sheet, behind an old trunk, in a box of hats, beside the window
at the school: in; under a desk, behind the bookshelf, in the coat room, beside the paint jars
at the library: in; under a chair, behind the tall shelf, beside the window, between two big books
in the workshop: in; under the bench, behind the tool box, in a pile of shavings, beside the stove
in the castle: in; under the stairs, behind a curtain, beside the throne, in a wooden chest
at the train station: in; under the bench, behind a trunk, beside the ticket window, near the clock
in the toy shop: in; on the lowest shelf, behind the blocks, under the counter, beside the dolls
"""
