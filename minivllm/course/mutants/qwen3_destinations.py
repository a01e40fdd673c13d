"""Chapter 03, names: tensors that land in the wrong rows of a fused parameter."""

from __future__ import annotations

from minivllm.course.declare import edit

_SLICE = "parameter[start : start + num_rows]"
_SPLIT = '*path, layer, kind = name.split(".")'
_NAME = 'found[".".join([*path, part, kind])]'
_ROW = f"{_NAME} = {_SLICE}"
_FUSED = "if layer not in fused:"
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
        ("if layer not in fused:", 'if layer not in fused or kind != "weight":'),
        look_at="the bias: it is split into the same rows as the weight",
    ),
    edit(
        "destinations.path_lost",
        "names without their path",
        (_NAME, 'found[f"{part}.weight"]'),
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
        (_SPLIT, 'path, layer, kind = name.split(".")[:3], *name.split(".")[3:]'),
        look_at="lm_head.weight: it has one word before its last, and no path",
    ),
    edit(
        "destinations.substring",
        "a layer taken for fused if a fused name is anywhere in it",
        (_FUSED, 'layer = next((f for f in fused if f in name), "")\n        ' + _FUSED),
        (_NAME, "found[name.replace(layer, part)]"),
        look_at="how a fused layer is known: the word before the last equals its name",
    ),
    edit(
        "destinations.any_word",
        "a layer taken for fused if any word of its path is a fused name",
        (
            _FUSED,
            'layer = next((word for word in name.split(".") if word in fused), "")\n        '
            + _FUSED,
        ),
        (_NAME, "found[name.replace(layer, part)]"),
        look_at="how a fused layer is known: by the word before the last alone",
    ),
    edit(
        "destinations.ending",
        "a layer taken for fused if its name ends like that of a fused one",
        (
            _FUSED,
            "ends = (f for f in fused if layer.endswith(f))\n"
            "        whole, layer = layer, next(ends, layer)\n        " + _FUSED,
        ),
        (_NAME, 'found[".".join([*path, whole.removesuffix(layer) + part, kind])]'),
        look_at="how a fused layer is known: the whole word equals its name",
    ),
    edit(
        "destinations.replaced_everywhere",
        "the fused name replaced wherever it is in the path",
        (_NAME, "found[name.replace(layer, part)]"),
        look_at="the new name: the word before the last changes, the path stays",
    ),
    edit(
        "destinations.own_names",
        "fused names written out in the code",
        (_FUSED, 'if layer not in ("qkv_proj", "gate_up_proj"):'),
        look_at="the names in your code: `fused` says which layers are fused",
    ),
    edit(
        "destinations.caller_changed",
        "the entries written into the caller's own mapping",
        ("found: dict[str, Tensor] = {}", "found: Any = parameters"),
        look_at="what is written into: a dict of your own, not `parameters`",
        try_it="found = {} to begin with",
    ),
    edit(
        "destinations.chunk",
        "the rows cut by chunk, which knows nothing of unequal parts",
        (_SLICE, "parameter.chunk(len(fused[layer]))[list(fused[layer]).index(part)]"),
        look_at="how many rows each part gets: split takes a list of sizes, chunk one number",
    ),
    edit(
        "destinations.always_weight",
        "the parts of a bias under the name of a weight",
        (_NAME, 'found[".".join([*path, part, "weight"])]'),
        look_at="the last word: a part of a bias is a bias",
    ),
    edit(
        "destinations.start_first",
        "the start moved before the slice is taken, not after it",
        (f"{_ROW}\n{_ADVANCE}", f"start += num_rows\n            {_ROW}"),
        look_at="when start moves: after the slice, to where the next part begins",
    ),
    edit(
        "destinations.stop_is_size",
        "slices that end at their size, not at their start plus their size",
        (_SLICE, "parameter[start:num_rows]"),
        look_at="where a slice ends: at start + num_rows",
    ),
    edit(
        "destinations.start_not_reset",
        "a start that goes on from one parameter to the next",
        ("        start = 0\n", ""),
        ("found: dict[str, Tensor] = {}", "found: dict[str, Tensor] = {}\n    start = 0"),
        look_at="where start is set to 0: once for each parameter",
    ),
    edit(
        "destinations.sorted_parts",
        "the parts in the order of the alphabet",
        ("in fused[layer].items()", "in sorted(fused[layer].items())"),
        look_at="the order of the parts: that of `fused`, from the top down",
    ),
    edit(
        "destinations.unfused_copied",
        "copies of the parameters that are not fused",
        ("found[name] = parameter\n", "found[name] = parameter.clone()\n"),
        look_at="a parameter that is not fused: it is given back itself",
        try_it="found[name] is parameters[name]",
    ),
    edit(
        "destinations.columns_of_all",
        "columns instead of rows, and a bias has none",
        (_SLICE, "parameter[:, start : start + num_rows]"),
        look_at="the axis of the slice: the parts lie below each other, so the first",
    ),
    edit(
        "destinations.popped",
        "parameters taken out of the caller's own mapping",
        ("found: dict[str, Tensor] = {}", "found: Any = parameters"),
        (
            "name, parameter in parameters.items():",
            "name in list(parameters):\n        parameter = found.pop(name)",
        ),
        look_at="what is written into: a dict of your own, not `parameters`",
        try_it="found = {} to begin with",
    ),
]
