"""Chapter 03, model: layers, caches and tables mixed up, values not from the config."""

from __future__ import annotations

from minivllm.course.declare import edit

_NORM = 'out: Tensor = self.model["norm"](x)'
_LOGITS = "head.logits(hidden_states)"
_COS_SIN = "cos_sin = self.rotary_emb(positions, x.dtype)"
_ROTARY = "self.rotary_emb = RotaryEmbedding(arch.rope, arch.head_dim)"
_LAYER = "x = layer(x, cos_sin, kv_cache, attn_metadata)"

MODEL = [
    edit(
        "model.tied_lm_head",
        "a head of its own, although the config says tied",
        ("if not self.tied:", "if True:"),
        ('self.model["embed_tokens"] if self.tied else self.lm_head', "self.lm_head"),
        look_at="arch.tie_word_embeddings: a tied model has no lm_head at all",
    ),
    edit(
        "model.always_tied",
        "the embedding as the head, although the config says not tied",
        ("if not self.tied:", "if False:"),
        ("if self.tied else", "if True else"),
        look_at="arch.tie_word_embeddings: without it the checkpoint has lm_head.weight",
    ),
    edit(
        "model.head_unused",
        "the embedding as the head, and lm_head never used",
        ("if self.tied else", "if True else"),
    ),
    edit("model.no_norm", "no norm after the last layer", (_NORM, "out: Tensor = x")),
    edit(
        "model.norm_everywhere",
        "the last norm after every layer",
        (_LAYER, f'{_LAYER}\n            x = self.model["norm"](x)'),
        (_NORM, "out: Tensor = x"),
    ),
    edit(
        "model.norm_twice",
        "the last norm taken twice",
        ("head.logits(hidden_states)", 'head.logits(self.model["norm"](hidden_states))'),
    ),
    edit(
        "model.scaled_embedding",
        "the embedding times sqrt(hidden_size), as in Gemma",
        (
            'x = self.model["embed_tokens"](input_ids)',
            'x = self.model["embed_tokens"](input_ids)\n        x = x * x.shape[1] ** 0.5',
        ),
    ),
    edit(
        "model.layers_reversed",
        "the layers from the last to the first",
        (
            'zip(self.model["layers"], kv_caches, strict=True)',
            'zip(reversed(self.model["layers"]), kv_caches, strict=True)',
        ),
    ),
    edit(
        "model.first_layer_only",
        "one layer, and the others left out",
        (_LAYER, f"{_LAYER}\n            break"),
    ),
    edit(
        "model.last_layer_skipped",
        "all layers but the last",
        (
            'zip(self.model["layers"], kv_caches, strict=True)',
            'zip(self.model["layers"][:-1], kv_caches)',
        ),
    ),
    edit(
        "model.same_layer",
        "the first layer over and over",
        (_LAYER, 'x = self.model["layers"][0](x, cos_sin, kv_cache, attn_metadata)'),
    ),
    edit(
        "model.one_cache",
        "one cache for all layers",
        (_LAYER, "x = layer(x, cos_sin, kv_caches[0], attn_metadata)"),
        look_at="which cache each layer gets: layer i writes and reads kv_caches[i]",
    ),
    edit(
        "model.stream_lost",
        "every layer reads the embedding, not the layer before it",
        (
            'x = self.model["embed_tokens"](input_ids)',
            'first = x = self.model["embed_tokens"](input_ids)',
        ),
        (_LAYER, "x = layer(first, cos_sin, kv_cache, attn_metadata)"),
    ),
    edit(
        "model.offset0",
        "positions 0, 1, 2, ... over the whole step, whatever was handed in",
        (
            "self.rotary_emb(positions, x.dtype)",
            "self.rotary_emb(torch.arange(len(input_ids)), x.dtype)",
        ),
    ),
    edit(
        "model.plus1",
        "positions that begin at 1",
        ("self.rotary_emb(positions, x.dtype)", "self.rotary_emb(positions + 1, x.dtype)"),
        equivalent="because a score depends on the distance of two positions alone",
    ),
    edit(
        "model.position_zero",
        "every token at position 0",
        ("self.rotary_emb(positions, x.dtype)", "self.rotary_emb(0 * positions, x.dtype)"),
    ),
    edit(
        "model.theta",
        "theta 10000 and not that of the config",
        (
            "RotaryEmbedding(arch.rope, arch.head_dim)",
            "RotaryEmbedding(type(arch.rope)(), arch.head_dim)",
        ),
        look_at="arch.rope: it holds the theta that this model was trained with",
    ),
    edit(
        "model.rope_head_dim",
        "cosines for hidden_size / num_heads, not for head_dim",
        (
            "RotaryEmbedding(arch.rope, arch.head_dim)",
            "RotaryEmbedding(arch.rope, arch.hidden_size // arch.num_heads)",
        ),
        look_at="the second argument of RotaryEmbedding: the head_dim of the config",
    ),
    edit(
        "model.eps",
        "eps written out as 1e-6 and not taken from the config",
        (
            '"norm": RMSNorm(arch.hidden_size, arch.rms_norm_eps)',
            '"norm": RMSNorm(arch.hidden_size, 1e-6)',
        ),
    ),
    edit(
        "model.softmax",
        "probabilities, not scores",
        ("head.logits(hidden_states)", "head.logits(hidden_states).softmax(-1)"),
    ),
    edit(
        "model.last_row",
        "the scores of the last row alone",
        ("head.logits(hidden_states)", "head.logits(hidden_states[-1:])"),
        look_at="compute_logits: the caller chooses the rows, each gets its scores",
    ),
    edit(
        "model.vocab_pad",
        "a vocabulary padded to a multiple of 8, whose empty rows get scores, too",
        (
            '"embed_tokens": VocabEmbedding(arch.vocab_size,',
            '"embed_tokens": VocabEmbedding(-(-arch.vocab_size // 8) * 8,',
        ),
        look_at="the size of the embedding: arch.vocab_size, and nothing on top",
    ),
    edit(
        "model.names",
        "a norm under a name that no checkpoint has",
        ('"norm": RMSNorm', '"final_norm": RMSNorm'),
        (_NORM, 'out: Tensor = self.model["final_norm"](x)'),
    ),
    edit(
        "model.norm_in_logits",
        "the last norm in compute_logits, and forward without it",
        (_NORM, "out: Tensor = x"),
        (_LOGITS, 'head.logits(self.model["norm"](hidden_states))'),
        look_at="what forward returns: rows after the last norm; others than logits read them",
    ),
    edit(
        "model.cos_by_count",
        "the cosines of an earlier step with as many rows",
        (
            _COS_SIN,
            "if len(input_ids) != getattr(self, 'num_rows', None):\n"
            "            self.num_rows = len(input_ids)\n"
            "            self.kept = self.rotary_emb(positions, x.dtype)\n"
            "        cos_sin = self.kept",
        ),
        look_at="what is kept from step to step: positions change even if their number does not",
    ),
    edit(
        "model.cos_forever",
        "the cosines of the first step, kept for all steps",
        (
            _COS_SIN,
            "if not hasattr(self, 'kept'):\n"
            "            self.kept = self.rotary_emb(positions, x.dtype)\n"
            "        cos_sin = self.kept",
        ),
        look_at="when cosines are worked out: once a step, for every step has its own positions",
    ),
    edit(
        "model.cos_table",
        "a table of 64 positions, in float32",
        (
            _COS_SIN,
            "table = self.rotary_emb(torch.arange(64), torch.float32)\n"
            "        cos_sin = table[0][positions], table[1][positions]",
        ),
        look_at="the length of the table: self.rotary_emb takes any positions, no table is needed",
    ),
    edit(
        "model.cos_in_float32",
        "cosines in float32, whatever the dtype of the stream",
        (_COS_SIN, _COS_SIN.replace("x.dtype", "torch.float32")),
        look_at="the second argument of the rotary embedding: the dtype of the stream, x.dtype",
    ),
    edit(
        "model.result_in_float32",
        "the right scores, but in float32",
        (_LOGITS, f"{_LOGITS}.float()"),
        look_at="the dtype of the logits: that of the model; the sampler converts",
    ),
    edit(
        "model.embedding_normed",
        "the last norm before the first layer, too",
        (_COS_SIN, f'{_COS_SIN}\n        x = self.model["norm"](x)'),
    ),
    edit(
        "model.layers_in_a_list",
        "layers in a Python list, whose parameters PyTorch does not see",
        ('"layers": nn.ModuleList(layers),', ""),
        (_ROTARY, f"self.layer_list = layers\n        {_ROTARY}"),
        ('zip(self.model["layers"],', "zip(self.layer_list,"),
        look_at="what holds the layers: nn.ModuleList registers them, a list does not",
    ),
    edit(
        "model.layers_at_the_top",
        "layers beside `model`, not in it",
        ('"layers": nn.ModuleList(layers),', ""),
        (_ROTARY, f"self.layers = nn.ModuleList(layers)\n        {_ROTARY}"),
        ('zip(self.model["layers"],', "zip(self.layers,"),
        look_at="the full names: model.layers.0..., so the layers belong into self.model",
    ),
    edit(
        "model.head_with_bias",
        "nn.Linear with its bias as the head",
        (
            "self.lm_head = VocabEmbedding(arch.vocab_size, arch.hidden_size, tp)",
            "self.lm_head = nn.Linear(arch.hidden_size, arch.vocab_size)",
        ),
        (_LOGITS, "hidden_states @ head.weight.T"),
        look_at="what lm_head is: a VocabEmbedding, a table without a bias",
    ),
    edit(
        "model.caches_reversed",
        "the caches from the last to the first",
        ("kv_caches, strict=True", "reversed(kv_caches), strict=True"),
        equivalent="because each layer still has a cache of its own, and caches are alike",
    ),
]
