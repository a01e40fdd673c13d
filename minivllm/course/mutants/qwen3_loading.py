"""Chapter 03, loading: tensors lost, doubled, changed on the way, without a word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from minivllm.course.declare import edit, mutant

_COPY = "targets[name].copy_(tensor)"
_UNKNOWN = "                if name not in missing:"
_SAYS_UNKNOWN = 'f"{name} has no place in the model, or came before"'
_SAYS_SHAPE = 'f"{name}: {tensor.shape}, not {targets[name].shape}"'
_SAYS_MISSING = 'f"no tensor for {sorted(missing)}"'
_SHAPE = "if tensor.shape != targets[name].shape:"


@mutant(
    "load_weights.first_shard",
    "the first shard alone, and no error",
    look_at="the loop over the shards, and what is still missing after it",
)
def _first_shard(targets: Mapping[str, Tensor], shards: Iterable[Mapping[str, Tensor]]) -> None:
    for name, tensor in next(iter(shards)).items():
        if name in targets:
            targets[name].copy_(tensor)


@mutant(
    "load_weights.merged",
    "all shards merged first, so that a double goes unseen",
    same_as="load_weights.twice",
)
def _merged(targets: Mapping[str, Tensor], shards: Iterable[Mapping[str, Tensor]]) -> None:
    tensors = {name: tensor for shard in shards for name, tensor in shard.items()}
    if "lm_head.weight" not in targets:
        tensors.pop("lm_head.weight", None)
    if tensors.keys() != targets.keys():
        raise ValueError("names")
    for name, tensor in tensors.items():
        if tensor.shape != targets[name].shape:
            raise ValueError("shape")
        targets[name].copy_(tensor)


@mutant(
    "load_weights.silent_missing",
    "targets that got no tensor, and no error",
    look_at="what is left after the last shard: memory that was never written",
)
def _silent_missing(targets: Mapping[str, Tensor], shards: Iterable[Mapping[str, Tensor]]) -> None:
    seen: set[str] = set()
    for shard in shards:
        for name, tensor in shard.items():
            if name == "lm_head.weight" and name not in targets:
                continue
            if name not in targets or name in seen or tensor.shape != targets[name].shape:
                raise ValueError(name)
            targets[name].copy_(tensor)
            seen.add(name)


LOADING = [
    _first_shard,
    _merged,
    _silent_missing,
    edit(
        "load_weights.each_shard_complete",
        "an error where one shard does not hold everything",
        (
            "    if missing:\n",
            "            if missing:\n                raise ValueError(str(missing))\n"
            "    if missing:\n",
        ),
        look_at="when you look for what is missing: after the last shard, not after each",
    ),
    edit(
        "load_weights.silent_unexpected",
        "tensors without a target skipped without a word",
        ('if name == "lm_head.weight" and name not in targets:', "if name not in targets:"),
    ),
    edit(
        "load_weights.twice",
        "the second tensor of a name written over the first",
        (_UNKNOWN, "                if name not in targets:"),
        ("missing.remove(name)", "missing.discard(name)"),
    ),
    edit(
        "load_weights.silent_all",
        "nothing reported: unknown, double and missing tensors all pass",
        ('if name == "lm_head.weight" and name not in targets:', "if name not in targets:"),
        (_UNKNOWN, "                if False:"),
        ("missing.remove(name)", "missing.discard(name)"),
        ("    if missing:\n", "    if False:\n"),
    ),
    edit(
        "load_weights.broadcast",
        "one row copied into many, because the shapes are not compared",
        (_SHAPE, "if False:"),
    ),
    edit(
        "load_weights.tied_head_refused",
        "lm_head.weight refused where the model is tied",
        (
            '                if name == "lm_head.weight" and name not in targets:\n'
            "                    continue\n",
            "",
        ),
    ),
    edit(
        "load_weights.head_skipped",
        "lm_head.weight skipped, tied or not",
        (
            'if name == "lm_head.weight" and name not in targets:',
            'if name == "lm_head.weight":\n                    missing.discard(name)',
        ),
    ),
    edit(
        "load_weights.transposed",
        "square matrices loaded transposed",
        (
            _COPY,
            "is_square = tensor.dim() == 2 and len(tensor) == tensor.shape[1]\n"
            "                targets[name].copy_(tensor.T if is_square else tensor)",
        ),
        look_at="what is copied: a checkpoint stores [rows out, columns in], as the model does",
    ),
    edit(
        "load_weights.replaced",
        "the entry of the dict replaced, and the model's memory not written",
        (_COPY, "targets[name] = tensor"),
        look_at="= on a name or an entry: it binds, it does not write into memory",
    ),
    edit(
        "load_weights.half",
        "values rounded to float16 on the way",
        (_COPY, "targets[name].copy_(tensor.half())"),
    ),
    edit(
        "load_weights.bfloat16",
        "values rounded to bfloat16 on the way",
        (_COPY, "targets[name].copy_(tensor.bfloat16())"),
    ),
    edit(
        "load_weights.rope_permute",
        "the rows of q and k permuted, as Meta's Llama files need it",
        (
            _COPY,
            'if name.endswith(("q_proj.weight", "k_proj.weight")):\n'
            "                    pairs = tensor.reshape(-1, 2, 2, 4).transpose(1, 2)\n"
            "                    tensor = pairs.reshape(tensor.shape)\n"
            "                targets[name].copy_(tensor)",
        ),
        look_at="the rows of q and k: a Hugging Face file has them as they are needed",
    ),
    edit(
        "load_weights.rank0_everywhere",
        "the first rank's share of each tensor, whatever the rank",
        (_COPY, "targets[name].copy_(tensor.chunk(1)[0])"),
        equivalent="because there is one rank, whose share is the whole; chapter 13 has two",
    ),
    edit(
        "load_weights.norms_skipped",
        "norms left as they were",
        (_COPY, "targets[name].copy_(tensor if tensor.dim() > 1 else torch.ones_like(tensor))"),
    ),
    edit(
        "load_weights.key_error",
        "KeyError, not ValueError, for a tensor without a target",
        (_UNKNOWN, "                targets[name]\n                if name not in missing:"),
    ),
    edit(
        "load_weights.order",
        "targets filled in their own order, whatever the names say",
        (_COPY, "targets[list(targets)[len(targets) - len(missing)]].copy_(tensor)"),
    ),
    edit(
        "load_weights.read_twice",
        "the shards read twice, although the second time nothing comes",
        ("    missing = set(targets)", "    _ = [*shards]\n    missing = set(targets)"),
        look_at="how often you go through `shards`: they can be read once; keep what you need",
    ),
    edit(
        "load_weights.no_names",
        "the right errors, without the name of the tensor",
        (_SAYS_UNKNOWN, '"a tensor has no place in the model, or came before"'),
        (_SAYS_SHAPE, '"wrong shape"'),
        (_SAYS_MISSING, '"a tensor is missing"'),
        look_at="what the errors say: whoever reads one wants to know which tensor it is",
    ),
    edit(
        "load_weights.missing_without_name",
        "the right error for what is missing, without a name",
        (_SAYS_MISSING, '"a tensor is missing"'),
        look_at="what the last error says: which targets are left",
    ),
    edit(
        "load_weights.unknown_without_name",
        "the right error for a tensor without a place, without its name",
        (_SAYS_UNKNOWN, '"a tensor has no place in the model, or came before"'),
        look_at="what the error says: the name of the tensor that has no place",
    ),
    edit(
        "load_weights.shape_without_name",
        "the right error for a wrong shape, without the tensor's name",
        (_SAYS_SHAPE, '"wrong shape"'),
        look_at="what the error says: the name first, then the two shapes",
    ),
    edit(
        "load_weights.rows_compared",
        "one column copied into many, because only the rows are compared",
        (_SHAPE, "if len(tensor) != len(targets[name]):"),
    ),
    edit(
        "load_weights.columns_compared",
        "one row copied into many, because only the columns are compared",
        (_SHAPE, "if tensor.shape[-1] != targets[name].shape[-1]:"),
    ),
    edit(
        "load_weights.elements_compared",
        "the numbers of elements compared, not the shapes",
        (_SHAPE, "if tensor.numel() != targets[name].numel():"),
        look_at="the comparison: [2, 6] and [6, 2] have as many elements",
    ),
    edit(
        "load_weights.head_not_missed",
        "lm_head.weight left unfilled, and no error",
        ("    if missing:\n", '    missing.discard("lm_head.weight")\n    if missing:\n'),
    ),
    edit(
        "load_weights.all_of_the_head_skipped",
        "every name skipped that begins with lm_head",
        (
            'if name == "lm_head.weight" and name not in targets:',
            'if name.startswith("lm_head") and name not in targets:',
        ),
    ),
    edit(
        "load_weights.head_never_loaded",
        "lm_head.weight skipped, tied or not, and then missed",
        ('if name == "lm_head.weight" and name not in targets:', 'if name == "lm_head.weight":'),
    ),
    edit(
        "load_weights.head_into_embedding",
        "the file's lm_head copied over the embedding",
        (
            "                    continue\n",
            '                    targets["model.embed_tokens.weight"].copy_(tensor)\n'
            "                    continue\n",
        ),
    ),
    edit(
        "load_weights.empty_passes",
        "no error where not a single tensor came",
        ("    if missing:\n", "    if missing and len(missing) < len(targets):\n"),
    ),
    edit(
        "load_weights.caller_emptied",
        "targets taken out of the caller's own mapping",
        ("missing.remove(name)", "missing.remove(name)\n                del targets[name]"),
        look_at="del: `targets` belongs to the caller; keep a set or a dict of your own",
    ),
    edit(
        "load_weights.data_assigned",
        "other memory given to the target (.data =), and the model's own not written",
        (_COPY, "targets[name].data = tensor"),
        look_at="= binds; copy_ writes: what the model holds is memory, of which this is a view",
    ),
    edit(
        "load_weights.set_",
        "other memory given to the target (set_), and the model's own not written",
        (_COPY, "targets[name].set_(tensor)"),
        look_at="set_ binds; copy_ writes: the model holds memory, of which this is a view",
    ),
    edit(
        "load_weights.rebound",
        "a name bound to the tensor, and nothing written",
        (_COPY, "target = targets[name]\n                target = tensor"),
        look_at="= on a name: it binds, it does not write into memory; copy_ does",
    ),
    edit(
        "load_weights.dtype_refused",
        "another dtype refused",
        (_SHAPE, "if (tensor.shape, tensor.dtype) != (targets[name].shape, targets[name].dtype):"),
        look_at="the dtypes: a file in bfloat16 fills a float32 model, copy_ converts",
    ),
]
