"""Attention to a cache of keys and values."""
import torch

from . import ops
from .capi import as_float, check_int32
from .shapes import (OF_CACHES, check_new_keys, check_types, check_without_effect, empty_results,
                     is_integer, sizes_with_cache)


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None,
                            cache_seqlens=None, cache_batch_idx=None, cache_leftpad=None,
                            block_table=None, softmax_scale=None, causal=False,
                            window_size=(-1, -1), softcap=0.0, rotary_interleaved=True,
                            alibi_slopes=None, num_splits=0, return_softmax_lse=False, *,
                            split_keys=0):
    """Attention of q, [batch, seq_q, heads_q, head_dim], to the keys in use of k_cache and v_cache,
    [batch, capacity, heads_kv, head_dim], float16 or bfloat16. The arguments are those of
    flash-attn 2, and split_keys. The result has no gradients.

    k, v            new keys and values, [batch, seq_new, heads_kv, head_dim]. They are first written
                    into the caches, at cache_seqlens, and q sees them. What is beyond the capacity
                    is not written
    cache_seqlens   how many keys each sequence has without the new ones, left padding included: an
                    int, or an int32 tensor [batch] on q's device, which is read there; None: all
                    that the caches hold. A sequence in a tensor whose length, with the new keys, is
                    below 0 or above the capacity gives NaN
    cache_batch_idx int32 [batch]: sequence b has its keys in cache number cache_batch_idx[b]. Then
                    the caches may have another batch than q. The numbers are not checked
    cache_leftpad   int32 [batch]: the first key that sequence b may see
    softmax_scale, causal, window_size
                    as in flash_attn_func; the last query is aligned with the last key in use
    split_keys      a multiple of 64: every row's keys are summed in parts of so many. Then the bits
                    of a row depend on its own query, keys and mask alone, not on the rest of the
                    batch, seq_q or the capacity
    num_splits      the keys of each sequence are divided into so many parts. If both are 0, the
                    library divides them; at most one may be set
    return_softmax_lse
                    return (out, lse): lse is float32 [batch, heads_q, seq_q]
    rotary_cos, rotary_sin, block_table, softcap, alibi_slopes
                    refused, unless they have no effect

    A cache is never copied: head_dim must have stride 1, and the addresses and other strides must be
    multiples of 16 bytes. If the library refuses a call, the new keys may have been written.
    """
    del rotary_interleaved  # without the other two it has no effect
    check_without_effect({"rotary_cos": rotary_cos, "rotary_sin": rotary_sin, "softcap": softcap,
                          "block_table": block_table, "alibi_slopes": alibi_slopes}, OF_CACHES)
    check_types({"softmax_scale": softmax_scale, "causal": causal, "window_size": window_size,
                 "num_splits": num_splits, "return_softmax_lse": return_softmax_lse,
                 "split_keys": split_keys})
    window_left, window_right = window_size
    for name, number in (("window_left", window_left), ("window_right", window_right),
                         ("num_splits", num_splits), ("split_keys", split_keys)):
        check_int32(name, number)
    lengths = None if is_integer(cache_seqlens) else cache_seqlens
    sizes = sizes_with_cache(q, k_cache, v_cache, cache_seqlens=lengths,
                             cache_batch_idx=cache_batch_idx, cache_leftpad=cache_leftpad)
    has_new = k is not None or v is not None
    if has_new:
        check_new_keys(q, k, v, sizes)
        if cache_seqlens is None:
            raise ValueError("cache_seqlens is None; it must say where k and v are to be written")
    if is_integer(cache_seqlens):
        lengths = _same_for_all(cache_seqlens, q, k.shape[1] if has_new else 0, sizes)
    with torch.no_grad():
        if has_new:
            _append((k_cache, v_cache), (k, v), lengths, cache_batch_idx)
            lengths = lengths + k.shape[1]
        if 0 in q.shape[:2]:  # no query
            o, lse = empty_results(q)
        else:
            scale = (sizes.head_dim or 1) ** -0.5 if softmax_scale is None else softmax_scale
            o, lse = ops.forward_with_cache(
                q, k_cache, v_cache, lengths, cache_batch_idx, cache_leftpad, as_float(scale), causal,
                window_left, window_right, split_keys, num_splits)
    return (o, lse) if return_softmax_lse else o


def _same_for_all(length, q, num_new, sizes):
    """The length of each sequence on q's device, without waiting for it."""
    if not 0 <= length <= sizes.seq_kv - num_new:
        raise ValueError(f"cache_seqlens is {length}, and {num_new} keys are new; the caches have room "
                         f"for {sizes.seq_kv} keys")
    return torch.full((sizes.batch,), length, dtype=torch.int32, device=q.device)


def _append(caches, news, lengths, cache_batch_idx):
    """Writes new keys and values at the lengths, if there is room."""
    batch, num_new = news[0].shape[:2]
    last = caches[0].shape[1] - 1
    numbers = torch.arange(batch, device=lengths.device)[:, None]
    which = numbers if cache_batch_idx is None else cache_batch_idx.long()[:, None]
    begin = lengths.long()[:, None]
    # Where a row is to be written. One without room stands for the row that is written last, or, if
    # no row has room, for what the cache holds there: two equal targets get equal values.
    target = (begin + torch.arange(num_new, device=lengths.device)).clamp(0, last)
    source = target - begin
    is_new = ((source >= 0) & (source < num_new))[..., None, None]
    source = source.clamp(0, num_new - 1)
    for cache, new in zip(caches, news):
        cache[which, target] = torch.where(is_new, new[numbers, source], cache[which, target])
