"""Chapter 03, model: layers, caches and tables mixed up, values not from the config."""

from __future__ import annotations

from minivllm.course.declare import edit

_NORM = 'out: Tensor = self.model["norm"](x)'
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
]
