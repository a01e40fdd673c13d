"""Chapter 03, decoder layer: norms and sums left out, or in the wrong order."""

from __future__ import annotations

from minivllm.course.declare import edit

_FIRST = "x = x + self.self_attn(self.input_layernorm(x), cos_sin, kv_cache, attn_metadata)"
_SECOND = "out: Tensor = x + self.mlp(self.post_attention_layernorm(x))"
_NORM_1 = "self.input_layernorm = RMSNorm(arch.hidden_size, arch.rms_norm_eps)"
_NORM_2 = "self.post_attention_layernorm = RMSNorm(arch.hidden_size, arch.rms_norm_eps)"
_MORE = "cos_sin, kv_cache, attn_metadata"

LAYER = [
    edit(
        "decoder_layer.residual_normed",
        "attention added to the normed rows, not to the stream",
        (_FIRST, f"x = self.input_layernorm(x)\n        x = x + self.self_attn(x, {_MORE})"),
    ),
    edit(
        "decoder_layer.second_residual_normed",
        "the MLP added to the normed rows, not to the stream",
        (_SECOND, "x = self.post_attention_layernorm(x)\n        out: Tensor = x + self.mlp(x)"),
    ),
    edit(
        "decoder_layer.both_residuals_normed",
        "both halves added to normed rows, not to the stream",
        (_FIRST, f"x = self.input_layernorm(x)\n        x = x + self.self_attn(x, {_MORE})"),
        (_SECOND, "x = self.post_attention_layernorm(x)\n        out: Tensor = x + self.mlp(x)"),
    ),
    edit(
        "decoder_layer.post_norm",
        "norms after each sum (the first transformer), not before each half",
        (_FIRST, f"x = self.input_layernorm(x + self.self_attn(x, {_MORE}))"),
        (_SECOND, "out: Tensor = self.post_attention_layernorm(x + self.mlp(x))"),
    ),
    edit(
        "decoder_layer.norm_of_result",
        "the results of the halves normed, not what they read",
        (_FIRST, f"x = x + self.input_layernorm(self.self_attn(x, {_MORE}))"),
        (_SECOND, "out: Tensor = x + self.post_attention_layernorm(self.mlp(x))"),
    ),
    edit(
        "decoder_layer.no_residual",
        "nothing added to the stream: each half replaces it",
        (_FIRST, _FIRST.replace("x + ", "")),
        (_SECOND, _SECOND.replace("x + ", "")),
    ),
    edit(
        "decoder_layer.no_first_residual",
        "the stream before attention left out",
        (_FIRST, _FIRST.replace("x + ", "")),
    ),
    edit(
        "decoder_layer.no_second_residual",
        "the stream before the MLP left out",
        (_SECOND, _SECOND.replace("x + ", "")),
    ),
    edit(
        "decoder_layer.parallel",
        "attention and MLP side by side, both from the layer's input",
        (_FIRST, f"a = self.self_attn(self.input_layernorm(x), {_MORE})"),
        (_SECOND, "out: Tensor = x + a + self.mlp(self.post_attention_layernorm(x))"),
    ),
    edit(
        "decoder_layer.first_sum_lost",
        "the MLP's result added to the layer's input, attention's lost",
        (_FIRST, f"y = x + self.self_attn(self.input_layernorm(x), {_MORE})"),
        (_SECOND, "out: Tensor = x + self.mlp(self.post_attention_layernorm(y))"),
    ),
    edit(
        "decoder_layer.input_added_twice",
        "the layer's input added once more at the end",
        (_FIRST, f"first = x\n        {_FIRST}"),
        (_SECOND, "out: Tensor = first + x + self.mlp(self.post_attention_layernorm(x))"),
    ),
    edit(
        "decoder_layer.same_norm_twice",
        "input_layernorm used for both halves",
        ("self.mlp(self.post_attention_layernorm(x))", "self.mlp(self.input_layernorm(x))"),
    ),
    edit(
        "decoder_layer.norms_swapped",
        "the two norms swapped",
        (
            "self.self_attn(self.input_layernorm(x)",
            "self.self_attn(self.post_attention_layernorm(x)",
        ),
        ("self.mlp(self.post_attention_layernorm(x))", "self.mlp(self.input_layernorm(x))"),
    ),
    edit(
        "decoder_layer.no_first_norm",
        "attention reads the stream without a norm",
        ("self.self_attn(self.input_layernorm(x)", "self.self_attn(x"),
    ),
    edit(
        "decoder_layer.no_second_norm",
        "the MLP reads the stream without a norm",
        ("self.mlp(self.post_attention_layernorm(x))", "self.mlp(x)"),
    ),
    edit(
        "decoder_layer.order",
        "the MLP first, then attention",
        (_FIRST, "y = x + self.mlp(self.post_attention_layernorm(x))"),
        (_SECOND, f"out: Tensor = y + self.self_attn(self.input_layernorm(y), {_MORE})"),
    ),
    edit(
        "decoder_layer.normed_twice",
        "the norm of the norm",
        (
            "self.mlp(self.post_attention_layernorm(x))",
            "self.mlp(self.post_attention_layernorm(self.input_layernorm(x)))",
        ),
    ),
    edit(
        "decoder_layer.eps",
        "eps written out as 1e-6 and not taken from the config",
        (
            "self.input_layernorm = RMSNorm(arch.hidden_size, arch.rms_norm_eps)",
            "self.input_layernorm = RMSNorm(arch.hidden_size, 1e-6)",
        ),
        (
            "self.post_attention_layernorm = RMSNorm(arch.hidden_size, arch.rms_norm_eps)",
            "self.post_attention_layernorm = RMSNorm(arch.hidden_size, 1e-6)",
        ),
    ),
    edit(
        "decoder_layer.layer_norm",
        "LayerNorm, which subtracts the mean, instead of RMSNorm",
        (
            "self.self_attn(self.input_layernorm(x)",
            "self.self_attn(self.input_layernorm(x - x.mean(-1, keepdim=True))",
        ),
        (
            "self.mlp(self.post_attention_layernorm(x))",
            "self.mlp(self.post_attention_layernorm(x - x.mean(-1, keepdim=True)))",
        ),
    ),
    edit(
        "decoder_layer.norm_names",
        "norms under names that no checkpoint has",
        ("self.post_attention_layernorm = ", "self.pre_mlp_layernorm = "),
        ("self.mlp(self.post_attention_layernorm(x))", "self.mlp(self.pre_mlp_layernorm(x))"),
    ),
    edit(
        "decoder_layer.inplace",
        "the right sum, but written over the caller's x",
        (_FIRST, _FIRST.replace("x = x + ", "x += ")),
        look_at="+= on x: the caller's tensor is changed, too",
    ),
    edit(
        "decoder_layer.second_norm_on_the_result",
        "the second norm taken of attention's result, and the MLP without one",
        (
            _FIRST,
            "normed = self.input_layernorm(x)\n"
            f"        x = x + self.post_attention_layernorm(self.self_attn(normed, {_MORE}))",
        ),
        (_SECOND, "out: Tensor = x + self.mlp(x)"),
        look_at="what post_attention_layernorm reads: the stream, after attention was added to it",
    ),
    edit(
        "decoder_layer.mlp_reads_the_result",
        "an MLP that reads the norm of attention's result, not of the stream",
        (_FIRST, f"a = self.self_attn(self.input_layernorm(x), {_MORE})\n        x = x + a"),
        (
            "self.mlp(self.post_attention_layernorm(x))",
            "self.mlp(self.post_attention_layernorm(a))",
        ),
        look_at="what the second norm reads: the sum, not what was added last",
    ),
    edit(
        "decoder_layer.cache_and_metadata_swapped",
        "kv_cache and attn_metadata handed on in the wrong order",
        (_FIRST, _FIRST.replace("kv_cache, attn_metadata", "attn_metadata, kv_cache")),
        look_at="the order of what attention is handed: normed, cos_sin, kv_cache, attn_metadata",
    ),
    edit(
        "decoder_layer.eps_of_the_first",
        "the eps of the config in the second norm alone, 1e-6 in the first",
        (_NORM_1, _NORM_1.replace("arch.rms_norm_eps", "1e-6")),
    ),
    edit(
        "decoder_layer.eps_of_the_second",
        "the eps of the config in the first norm alone, 1e-6 in the second",
        (_NORM_2, _NORM_2.replace("arch.rms_norm_eps", "1e-6")),
    ),
    edit(
        "decoder_layer.shared_norm",
        "one norm under two names",
        (_NORM_2, "self.post_attention_layernorm = self.input_layernorm"),
        look_at="the second norm: a layer of its own, with weights of its own",
    ),
    edit(
        "decoder_layer.torch_layer_norm",
        "nn.LayerNorm, whose bias no checkpoint has",
        (_NORM_1, _NORM_1.replace("RMSNorm", "nn.LayerNorm")),
        (_NORM_2, _NORM_2.replace("RMSNorm", "nn.LayerNorm")),
        look_at="the kind of norm: RMSNorm, with a weight and no bias",
    ),
    edit(
        "decoder_layer.stream_in_float32",
        "a stream turned to float32 in a bfloat16 model",
        (_FIRST, f"x = x.float()\n        {_FIRST}"),
        look_at="float(): the halves want rows in the dtype of their weights",
    ),
    edit(
        "decoder_layer.result_in_float32",
        "the right result, but in float32",
        (_SECOND, f"{_SECOND.replace('x + ', '(x + ')}).float()"),
        look_at="the dtype of what you return: that of x",
    ),
]
