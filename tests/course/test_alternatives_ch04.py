"""Right answers to chapter 04 written otherwise: each must pass every check.

And mistakes that are on no list: each must fail.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from minivllm.counter_random import gumbel, uniform
from minivllm.course.attempt import Attempt
from minivllm.course.bank import Bank
from minivllm.course.examine import examine
from minivllm.course.grade import bank_of
from minivllm.course.registry import find, solution_of
from minivllm.course.render import render
from minivllm.course.report import Report

INF = float("inf")


@functools.cache
def bank_on(name: str) -> Bank:
    bank = bank_of(find(f"ch04.{name}"))
    assert isinstance(bank, Bank)
    return bank


def report_on(name: str, implementation: Any) -> Report:
    task = find(f"ch04.{name}")
    source = solution_of(task)
    attempt = Attempt(
        task=task, source=source, stub=source, file="x.py", path="x.py", ready=implementation
    )
    return examine(attempt, bank_on(name))


# --- filter_logits -------------------------------------------------------------------------------


def filter_by_rows(logits, top_ks, top_ps):
    out = torch.full_like(logits, -INF)
    for i in range(logits.size(0)):
        k, p, row = int(top_ks[i]), float(top_ps[i]), logits[i].clone()
        if 0 < k < len(row):
            row[row < row.topk(k).values[-1]] = -INF
        if p < 1:
            values, ids = torch.sort(row, descending=True)
            sums = torch.cumsum(F.softmax(values, dim=0), dim=0)
            drop = sums >= p
            drop[1:] = drop[:-1].clone()
            drop[0] = False
            row[ids[drop]] = -INF
        out[i] = row
    return out


def filter_like_vllm(logits, top_ks, top_ps):
    """Ascending, as vLLM's apply_top_k_top_p: what comes before the last 1 - p goes."""
    vocab_size = logits.shape[-1]
    ascending, ids = logits.sort(dim=-1, descending=False)
    k = torch.where(top_ks <= 0, vocab_size, top_ks).clamp(max=vocab_size)
    ascending = ascending.masked_fill(
        ascending < ascending.gather(1, (vocab_size - k)[:, None]), -INF
    )
    sums = ascending.double().softmax(-1).cumsum(-1)
    drop = (sums <= 1 - top_ps.double()[:, None]) & (top_ps[:, None] < 1)
    drop[:, -1] = False
    return logits.scatter(-1, ids, ascending.masked_fill(drop, -INF))


def filter_by_threshold(logits, top_ks, top_ps):
    neg = -INF * torch.ones_like(logits)
    order = logits.argsort(-1, descending=True)
    rank = order.argsort(-1)
    sorted_logits = torch.take_along_dim(logits, order, -1)
    n = logits.shape[1]
    kth = torch.stack(
        [
            row[min(int(k) if k > 0 else n, n) - 1]
            for row, k in zip(sorted_logits, top_ks, strict=True)
        ]
    )
    limited = torch.where(logits >= kth[:, None], logits, neg)
    probs = torch.exp(limited - torch.logsumexp(limited, -1, keepdim=True))
    in_order = torch.take_along_dim(probs, order, -1)
    before = F.pad(in_order.cumsum(-1), (1, -1))
    keep = (before < top_ps.unsqueeze(1)) | (top_ps.unsqueeze(1) == 1)
    return torch.where(torch.take_along_dim(keep, rank, -1), limited, neg)


# --- sample --------------------------------------------------------------------------------------


def sample_by_rows(logits, temperatures, keep, seeds, positions):
    noise = gumbel(seeds, positions, logits.shape[-1])
    safe = temperatures.clone()
    safe[safe == 0] = 1
    allowed = keep(logits.float() / safe.unsqueeze(-1))
    tokens = []
    for i, temperature in enumerate(temperatures.tolist()):
        row = logits[i].float() if temperature == 0 else allowed[i] + noise[i]
        tokens.append(torch.argmax(row).item())
    return torch.tensor(tokens)


def sample_by_a_race(logits, temperatures, keep, seeds, positions):
    """Exponential clocks: probabilities divided by -log(u), the largest is first."""
    is_random = temperatures > 0
    tokens = torch.argmax(logits, dim=1)
    scaled = logits.double() / temperatures.masked_fill(~is_random, 1.0).double()[:, None]
    u = uniform(seeds, positions, logits.size(1)).double()
    race = (keep(scaled).log_softmax(-1) - torch.log(-torch.log(u))).argmax(-1)
    tokens[is_random] = race[is_random]
    return tokens


def sample_with_a_tiny_eps(logits, temperatures, keep, seeds, positions):
    """The usual guards, too small to change a draw; temperature 0 becomes a small number."""
    scaled = logits.float() / temperatures.clamp(min=1e-5).unsqueeze(1)
    u = uniform(seeds, positions, logits.shape[1])
    race = keep(scaled).softmax(-1) / -torch.log(u + 1e-10)
    return torch.where(temperatures < 1e-5, logits.float().argmax(-1), race.argmax(-1))


def sample_by_arithmetic(logits, temperatures, keep, seeds, positions):
    hot = (temperatures != 0).long()
    wide = logits.to(torch.float32)
    scaled = wide / (temperatures + (1 - hot))[:, None]
    u = uniform(seeds, positions, wide.shape[1])
    scores = keep(scaled) - torch.log(-torch.log(u))
    return hot * scores.max(-1).indices + (1 - hot) * wide.max(-1).indices


# --- the loops -----------------------------------------------------------------------------------


def naive_with_while(model, choose, prompt, num_new_tokens):
    text, new = prompt[:], []
    while len(new) != num_new_tokens:
        new.append(choose(model(text + new, 0)[-1, :], len(text) + len(new)))
    return new


def naive_with_tensors(model, choose, prompt, num_new_tokens):
    ids = torch.tensor(prompt)
    for position in range(len(prompt), len(prompt) + num_new_tokens):
        token = choose(model(ids.tolist(), 0)[position - 1], position)
        ids = torch.cat((ids, torch.tensor([token])))
    return ids[len(prompt) :].tolist()


def naive_recursive(model, choose, prompt, num_new_tokens):
    if num_new_tokens == 0:
        return []
    token = choose(model(prompt, 0)[-1], len(prompt))
    return [token, *naive_recursive(model, choose, [*prompt, token], num_new_tokens - 1)]


def cached_with_for(model, choose, prompt, num_new_tokens):
    pending, position, out = list(prompt), 0, []
    for _ in range(num_new_tokens):
        row = model(pending, position)[-1]
        position += len(pending)
        pending = [choose(row, position)]
        out.extend(pending)
    return out


def cached_with_a_copy(model, choose, prompt, num_new_tokens):
    token_ids = [*prompt, choose(model(prompt, 0)[len(prompt) - 1], len(prompt))]
    for i in range(1, num_new_tokens):
        logits = model([token_ids[-1]], len(prompt) + i - 1).squeeze(0)
        token_ids.append(choose(logits, len(token_ids)))
    return token_ids[-num_new_tokens:]


def cached_with_a_generator(model, choose, prompt, num_new_tokens):
    def tokens():
        token = choose(model(prompt, 0)[-1], len(prompt))
        yield token
        for place in range(len(prompt), len(prompt) + num_new_tokens - 1):
            token = choose(model([token], place)[0], place + 1)
            yield token

    return list(tokens())


# --- cached_attention ----------------------------------------------------------------------------


def attention_by_einsum(q, k, v, k_cache, v_cache, num_computed):
    group, out = q.size(2) // k.size(2), []
    for r in range(q.size(0)):
        start, end = int(num_computed[r]), int(num_computed[r]) + q.size(1)
        k_cache[r, start:end].copy_(k[r])
        v_cache[r, start:end].copy_(v[r])
        keys = k_cache[r, :end].repeat_interleave(group, dim=1)
        values = v_cache[r, :end].repeat_interleave(group, dim=1)
        scores = torch.einsum("qhd,khd->hqk", q[r], keys) / q.size(-1) ** 0.5
        future = torch.arange(end)[None, :] > torch.arange(start, end)[:, None]
        weights = scores.masked_fill(future, -INF).softmax(-1)
        out.append(torch.einsum("hqk,khd->qhd", weights, values))
    return torch.stack(out)


def attention_all_rows_at_once(q, k, v, k_cache, v_cache, num_computed):
    num_rows, num_new = q.shape[:2]
    slots = num_computed[:, None] + torch.arange(num_new)
    rows = torch.arange(num_rows)[:, None]
    k_cache[rows, slots], v_cache[rows, slots] = k, v
    longest = int(slots.max()) + 1
    visible = torch.arange(longest) <= slots[:, :, None]
    written = torch.arange(longest) <= slots[:, -1:]
    keys = torch.where(written[..., None, None], k_cache[:, :longest], 0.0).transpose(1, 2)
    values = torch.where(written[..., None, None], v_cache[:, :longest], 0.0).transpose(1, 2)
    mixed = F.scaled_dot_product_attention(
        q.transpose(1, 2), keys, values, attn_mask=visible[:, None], enable_gqa=True
    )
    return mixed.transpose(1, 2)


def attention_token_by_token(q, k, v, k_cache, v_cache, num_computed):
    out = q.new_empty(q.shape)
    for row in range(len(q)):
        for i in range(q.shape[1]):
            p = int(num_computed[row]) + i
            k_cache[row][p] = k[row][i]
            v_cache[row][p] = v[row][i]
            for h in range(q.shape[2]):
                kv = h * k.shape[2] // q.shape[2]
                scores = (k_cache[row, : p + 1, kv] * q[row, i, h]).sum(-1) * q.shape[3] ** -0.5
                e = torch.exp(scores - scores.max())
                out[row, i, h] = (e / e.sum()) @ v_cache[row, : p + 1, kv]
    return out


RIGHT = [
    ("filter_logits", filter_by_rows),
    ("filter_logits", filter_like_vllm),
    ("filter_logits", filter_by_threshold),
    ("sample", sample_by_rows),
    ("sample", sample_by_a_race),
    ("sample", sample_with_a_tiny_eps),
    ("sample", sample_by_arithmetic),
    ("generate_naive", naive_with_while),
    ("generate_naive", naive_with_tensors),
    ("generate_naive", naive_recursive),
    ("generate_cached", cached_with_for),
    ("generate_cached", cached_with_a_copy),
    ("generate_cached", cached_with_a_generator),
    ("cached_attention", attention_by_einsum),
    ("cached_attention", attention_all_rows_at_once),
    ("cached_attention", attention_token_by_token),
]


@pytest.mark.parametrize(("name", "implementation"), RIGHT, ids=lambda x: getattr(x, "__name__", x))
def test_a_right_answer_written_otherwise_passes(name, implementation):
    report = report_on(name, implementation)
    assert report.passed, render(report)


# --- mistakes on no list -------------------------------------------------------------------------


def filter_p_below_share(logits, top_ks, top_ps):
    """Keeps the tokens that are themselves likelier than 1 - p."""
    out = filter_by_rows(logits, top_ks, torch.ones_like(top_ps))
    return out.masked_fill((out.softmax(-1) < 1 - top_ps[:, None]) & (top_ps[:, None] < 1), -INF)


def filter_with_the_largest_k(logits, top_ks, top_ps):
    return filter_by_rows(logits, top_ks.max().expand_as(top_ks), top_ps)


def filter_p_then_k(logits, top_ks, top_ps):
    after_p = filter_by_rows(logits, torch.zeros_like(top_ks), top_ps)
    return filter_by_rows(after_p, top_ks, torch.ones_like(top_ps))


def filter_half_precision(logits, top_ks, top_ps):
    return filter_by_rows(logits.half(), top_ks, top_ps).float()


def sample_inverse_of_the_sums(logits, temperatures, keep, seeds, positions):
    """A right way to draw, but not with the promised numbers."""
    safe = torch.where(temperatures == 0, 1.0, temperatures)
    sums = keep(logits.float() / safe[:, None]).softmax(-1).cumsum(-1)
    token_ids = (sums < uniform(seeds, positions, 1)).sum(-1)
    return torch.where(temperatures == 0, logits.float().argmax(-1), token_ids)


def sample_greedy_below_one(logits, temperatures, keep, seeds, positions):
    drawn = sample_by_rows(logits, temperatures, keep, seeds, positions)
    return torch.where(temperatures < 0.1, logits.argmax(-1), drawn)


def sample_noise_of_kept_only(logits, temperatures, keep, seeds, positions):
    """Reads the noise in the order of the sorted logits."""
    safe = torch.where(temperatures == 0, 1.0, temperatures)
    values, ids = keep(logits.float() / safe[:, None]).sort(-1, descending=True)
    place = (values + gumbel(seeds, positions, logits.shape[1])).argmax(-1, keepdim=True)
    return torch.where(temperatures == 0, logits.argmax(-1), ids.gather(-1, place)[:, 0])


def sample_squared_seed(logits, temperatures, keep, seeds, positions):
    return sample_by_rows(logits, temperatures, keep, seeds + positions, positions)


def naive_caches_the_last_run(model, choose, prompt, num_new_tokens):
    logits = model(prompt, 0)
    return [choose(logits[-1], len(prompt) + i) for i in range(num_new_tokens)]


def naive_drops_the_first(model, choose, prompt, num_new_tokens):
    text = list(prompt)
    for _ in range(num_new_tokens):
        text = text[-8:]
        text.append(choose(model(text, 0)[-1], len(text)))
    return text[-num_new_tokens:]


def cached_prefill_without_the_last(model, choose, prompt, num_new_tokens):
    if len(prompt) > 1:
        model(prompt[:-1], 0)
    token, out = prompt[-1], []
    for i in range(num_new_tokens):
        token = choose(model([token], len(prompt) - 1 + i)[-1], len(prompt) + i)
        out.append(token)
    return out


def cached_recomputes_sometimes(model, choose, prompt, num_new_tokens):
    out = cached_with_for(model, choose, prompt, min(num_new_tokens, 10))
    while len(out) < num_new_tokens:
        out.append(choose(model([*prompt, *out], 0)[-1], len(prompt) + len(out)))
    return out


def attention_rolls_the_cache(q, k, v, k_cache, v_cache, num_computed):
    """Appends at the end of the row, as a sliding window does."""
    for cache, new in ((k_cache, k), (v_cache, v)):
        cache.copy_(torch.cat((cache, new), dim=1)[:, new.shape[1] :])
    return attention_by_einsum(q, k, v, k_cache.clone(), v_cache.clone(), num_computed)


def attention_mask_of_the_first_row(q, k, v, k_cache, v_cache, num_computed):
    out = attention_by_einsum(q, k, v, k_cache, v_cache, num_computed)
    start = int(num_computed.min())
    return attention_by_einsum(
        q, k, v, k_cache.clone(), v_cache.clone(), torch.full_like(num_computed, start)
    ).where(num_computed[:, None, None, None] == start, out + 0.01)


def attention_zero_for_nan(q, k, v, k_cache, v_cache, num_computed):
    """Hides what was never written by overwriting it with zeros."""
    k_cache.nan_to_num_(0.0), v_cache.nan_to_num_(0.0)
    return attention_by_einsum(q, k, v, k_cache, v_cache, num_computed)


WRONG = [
    ("filter_logits", filter_p_below_share),
    ("filter_logits", filter_with_the_largest_k),
    ("filter_logits", filter_p_then_k),
    ("filter_logits", filter_half_precision),
    ("sample", sample_inverse_of_the_sums),
    ("sample", sample_greedy_below_one),
    ("sample", sample_noise_of_kept_only),
    ("sample", sample_squared_seed),
    ("generate_naive", naive_caches_the_last_run),
    ("generate_naive", naive_drops_the_first),
    ("generate_cached", cached_prefill_without_the_last),
    ("generate_cached", cached_recomputes_sometimes),
    ("cached_attention", attention_rolls_the_cache),
    ("cached_attention", attention_mask_of_the_first_row),
    ("cached_attention", attention_zero_for_nan),
]


@pytest.mark.parametrize(("name", "implementation"), WRONG, ids=lambda x: getattr(x, "__name__", x))
def test_a_mistake_on_no_list_fails(name, implementation):
    report = report_on(name, implementation)
    assert report.state == "NOT YET"
    assert len(render(report).splitlines()) <= 18
