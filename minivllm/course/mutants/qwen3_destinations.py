"""Chapter 03, names: tensors that land in the wrong rows of a fused parameter."""

from __future__ import annotations

from minivllm.course.declare import edit

_SLICE = "parameter[start : start + num_rows]"
_ADVANCE = "            start += num_rows"

DESTINATIONS = [
    edit(
        "destinations.equal_thirds",
        "the rows shared out evenly over the parts",
        (
            "        for part, num_rows in fused[layer].items():",
            "        for part in fused[layer]:\n"
            "            num_rows = len(parameter) // len(fused[layer])",
        ),
        look_at="how many rows each part gets: q has more than k and v",
    ),
    edit(
        "destinations.order_kqv",
        "the parts from the bottom up",
        ("in fused[layer].items()", "in reversed(fused[layer].items())"),
    ),
    edit(
        "destinations.offset_rows",
        "the start of k forgets the rows of q: every part begins at row 0",
        (_ADVANCE, ""),
    ),
    edit(
        "destinations.offset_of_last",
        "a part begins after the part before it, whatever came before that",
        ("            start += num_rows", "            start = num_rows"),
    ),
    edit(
        "destinations.short",
        "the last row of each part left out",
        (_SLICE, "parameter[start : start + num_rows - 1]"),
    ),
    edit(
        "destinations.overlap",
        "each part one row too long",
        (_SLICE, "parameter[start : start + num_rows + 1]"),
    ),
    edit(
        "destinations.stack_interleaved",
        "row i to part i mod 3: the parts interleaved",
        (_SLICE, "parameter[list(fused[layer]).index(part) :: len(fused[layer])][:num_rows]"),
    ),
    edit(
        "destinations.copies",
        "copies of the rows, not views: what is loaded never arrives",
        (_SLICE, f"{_SLICE}.clone()"),
        look_at="whether what you give back shares its memory with the parameter",
        try_it="found[name].fill_(1.0), then print the parameter",
    ),
    edit(
        "destinations.columns",
        "columns instead of rows",
        (_SLICE, "parameter[..., start : start + num_rows]"),
    ),
    edit(
        "destinations.fused_name_too",
        "the fused name left in beside its parts",
        ("        start = 0", "        found[name] = parameter\n        start = 0"),
        look_at="the names: no checkpoint holds a qkv_proj",
    ),
    edit(
        "destinations.only_fused",
        "the parameters that are not fused left out",
        ("            found[name] = parameter\n", ""),
    ),
    edit(
        "destinations.weights_only",
        "the weight split into its parts, the bias not",
        ("if layer not in fused:", 'if layer not in fused or not name.endswith("weight"):'),
        look_at="the bias: it is split into the same rows as the weight",
    ),
    edit(
        "destinations.path_lost",
        "names without their path",
        ("found[name.replace(layer, part)]", 'found[f"{part}.weight"]'),
        look_at="the whole name, path and all: every layer of the model has a q_proj",
    ),
    edit(
        "destinations.whole_parameter",
        "the whole parameter for each part",
        (_SLICE, "parameter"),
        same_as="destinations.shard_last_wins",
    ),
    edit(
        "destinations.shard_last_wins",
        "each part given the whole parameter, so that the last one wins",
        (_SLICE, "parameter[:]"),
    ),
    edit(
        "destinations.naive_chunk",
        "the fused rows cut over the ranks before they are given to the parts",
        (_SLICE, "parameter.chunk(1)[0][start : start + num_rows]"),
        equivalent="because there is one rank, whose cut is the whole; chapter 13 has two",
    ),
    edit(
        "destinations.halves",
        "gate and up in the order up, gate",
        (
            "in fused[layer].items()",
            'in (reversed(fused[layer].items()) if "up" in layer else fused[layer].items())',
        ),
    ),
    edit(
        "destinations.three_words",
        "names taken apart from the left, as if all had a path of three words",
        ('layer = name.split(".")[-2]', 'layer = name.split(".")[3]'),
        look_at="lm_head.weight: it has one word before its last, and no path",
    ),
]
