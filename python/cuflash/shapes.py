"""Checks that Q, K, V and the options fit together, and reads their sizes."""
import numbers
from typing import NamedTuple

import torch

from . import capi

DTYPES = dict(zip((torch.float32, torch.float16, torch.bfloat16), capi.DTYPES))
WORDS = {"BSHD": "[batch, seq, heads, head_dim]", "BHSD": "[batch, heads, seq, head_dim]"}
OPTIONS = {"softmax_scale": ((float, numbers.Real, torch.SymFloat, type(None)), "a number or None"),
           "causal": (bool, "True or False"),
           "window_size": ((tuple, list), "(left, right), two integers"),
           "deterministic": (bool, "True or False"), "return_lse": (bool, "True or False"),
           "stage": ((str, type(None)), "a stage's name or None"),
           "return_softmax_lse": (bool, "True or False"),
           "num_splits": ((numbers.Integral, torch.SymInt), "an integer"),
           "split_keys": ((numbers.Integral, torch.SymInt), "an integer")}
# Arguments of flash-attn and of PyTorch's scaled_dot_product_attention that are not options here: the
# value without effect, and the alternative to any other value.
OF_OTHERS = {
    "dropout_p": (0.0, "there is no dropout"),
    "softcap": (0.0, "there is no cap on scores"),
    "alibi_slopes": (None, "there is no bias"),
    "return_attn_probs": (False, "write return_lse=True; P is not stored"),
    "attn_mask": (None, "the masks are causal and window_size"),
    "is_causal": (False, "write causal=True, which aligns the last query with the last key; is_causal "
                         "aligns the first ones"),
    "scale": (None, "write softmax_scale"),
    "enable_gqa": (False, "k and v may have fewer heads without it")}
OF_CACHES = {  # those of flash-attn's flash_attn_with_kvcache
    **{name: OF_OTHERS[name] for name in ("softcap", "alibi_slopes")},
    "rotary_cos": (None, "rotate q and k before the call"),
    "rotary_sin": (None, "rotate q and k before the call"),
    "block_table": (None, "there are no pages; cache_batch_idx chooses among whole caches")}


class Sizes(NamedTuple):
    """The sizes of one attention problem."""
    batch: int
    heads_q: int
    heads_kv: int
    seq_q: int
    seq_kv: int
    head_dim: int


def check_options(softmax_scale=None, causal=False, window_size=(-1, -1), deterministic=False,
                  return_lse=False, stage=None):
    """Raises unless the options have their types."""
    if ((softmax_scale is None or type(softmax_scale) is float)  # as in nearly every call
            and type(causal) is type(deterministic) is type(return_lse) is bool
            and type(window_size) is tuple and _are_two_integers(window_size) and stage is None):
        return
    options = {"softmax_scale": softmax_scale, "causal": causal, "window_size": window_size,
               "deterministic": deterministic, "return_lse": return_lse, "stage": stage}
    check_types(options)


def check_types(options):
    """Raises unless each option has its type."""
    for name, value in options.items():
        types, words = OPTIONS[name]
        fits = isinstance(value, types) and (not isinstance(value, bool) or types is bool)
        if not fits or (name == "window_size" and not _are_two_integers(value)):
            kind = type(value)
            place = "" if kind.__module__ == "builtins" else f"{kind.__module__}."  # numpy.bool, say
            raise TypeError(f"{name} is {value!r}, of type {place}{kind.__name__}; it must be {words}")


def check_arguments_of_others(positional, others):
    """Raises if an option was given by position, or an argument of OF_OTHERS has an effect."""
    if positional:
        raise TypeError(f"flash_attn_func takes q, k and v by position, then {_shown(positional[0])}: "
                        "write softmax_scale=... or another option's name (here flash-attn 2 has "
                        "dropout_p, flash-attn 3 softmax_scale)")
    for name, value in others.items():
        if name not in OF_OTHERS:
            raise TypeError(f"flash_attn_func() got an unexpected keyword argument {name!r}")
    check_without_effect(others, OF_OTHERS)


def check_without_effect(values, known):
    """Raises if one of the values has an effect; `known` is OF_OTHERS or OF_CACHES."""
    for name, value in values.items():
        off, instead = known[name]
        if value is not off and not (isinstance(value, numbers.Real) and value == off):
            raise TypeError(f"{name} is {_shown(value)}; it must be {off} or left out: {instead}")


def check_tensors(q, k, v):
    """Raises unless these are three dense tensors of one dtype on one device."""
    check_alike({"q": q, "k": k, "v": v})


def check_alike(named):
    """Raises unless these, by their names, are dense tensors of one dtype on one device."""
    for name, tensor in named.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is a {type(tensor).__name__}; it must be a torch.Tensor")
    for name, tensor in named.items():
        if tensor.dtype not in DTYPES:
            *words, last = map(_word, DTYPES)
            raise TypeError(f"{name} is {_word(tensor.dtype)}; it must be {', '.join(words)} or "
                            f"{last}")
        if tensor.layout != torch.strided or tensor.is_nested:
            layout = "nested" if tensor.is_nested else _word(tensor.layout)
            raise ValueError(f"{name} is {layout}; it must be a dense tensor")
    *names, last = named
    all_of_them = f"{', '.join(names)} and {last}"
    model = named[last]
    if any(tensor.dtype != model.dtype for tensor in named.values()):
        raise TypeError(f"{all_of_them} must have the same dtype; they have "
                        + ", ".join(_word(tensor.dtype) for tensor in named.values()))
    if any(tensor.device != model.device for tensor in named.values()):
        raise ValueError(f"{all_of_them} must be on the same device; they are on "
                         + ", ".join(str(tensor.device) for tensor in named.values()))


def sizes_of(q, k, v, layout="BSHD"):
    """The sizes of three tensors in this layout."""
    _check_dimensions({"q": q, "k": k, "v": v}, layout)
    heads, seq = layout.index("H"), layout.index("S")
    batch, head_dim = q.shape[0], q.shape[3]
    if k.shape != v.shape or k.shape[0] != batch or k.shape[3] != head_dim:
        raise ValueError(
            f"q is {list(q.shape)}, k is {list(k.shape)}, v is {list(v.shape)}, as "
            f"{WORDS[layout]}; k and v must have the same shape, with q's batch and head_dim")
    return Sizes(batch, q.shape[heads], k.shape[heads], q.shape[seq], k.shape[seq], head_dim)


def sizes_with_cache(q, k_cache, v_cache, **arrays):
    """The sizes of q and its caches, [batch, seq, heads, head_dim]. The arrays are cache_seqlens,
    cache_batch_idx and cache_leftpad: each is None or has an int32 for each sequence."""
    caches = {"k_cache": k_cache, "v_cache": v_cache}
    check_alike({"q": q, **caches})
    _check_dimensions({"q": q, **caches}, "BSHD")
    batch, seq_q, heads_q, head_dim = q.shape
    batches, capacity, heads_kv, _ = k_cache.shape
    chosen = arrays["cache_batch_idx"] is not None
    if (k_cache.shape != v_cache.shape or k_cache.shape[3] != head_dim
            or (batches != batch and not chosen)):
        raise ValueError(
            f"q is {list(q.shape)}, k_cache is {list(k_cache.shape)}, v_cache is "
            f"{list(v_cache.shape)}, as {WORDS['BSHD']}; the caches must have the same shape, with "
            "q's head_dim and, without cache_batch_idx, q's batch")
    for name, cache in caches.items():
        if cache.stride(3) != 1:
            raise ValueError(f"{name} has a stride of {cache.stride(3)} elements in head_dim; it must "
                             "be 1: a cache is never copied")
    for name, array in arrays.items():
        if array is None:
            continue
        if not isinstance(array, torch.Tensor):
            integer = " or an integer" if name == "cache_seqlens" else ""
            raise TypeError(f"{name} is a {type(array).__name__}; it must be a torch.Tensor{integer}")
        if (tuple(array.shape), array.dtype, array.device) != ((batch,), torch.int32, q.device):
            raise ValueError(f"{name} is {list(array.shape)}, {array.dtype}, on {array.device}; it "
                             f"must be {[batch]}, torch.int32, on {q.device}")
    return Sizes(batch, heads_q, heads_kv, seq_q, capacity, head_dim)


def check_new_keys(q, k, v, sizes):
    """Raises unless k and v can be written into the caches of these sizes."""
    check_alike({"q": q, "k": k, "v": v})
    _check_dimensions({"k": k, "v": v}, "BSHD")
    want = [sizes.batch, k.shape[1], sizes.heads_kv, sizes.head_dim]
    if k.shape != v.shape or list(k.shape) != want:
        raise ValueError(f"k is {list(k.shape)}, v is {list(v.shape)}; both must be {want}, as the "
                         "caches with q's batch")
    if sizes.seq_kv == 0:
        raise ValueError("k_cache has no room for a key")


def problem_with_cache(q, k_cache, v_cache, cache_seqlens, cache_batch_idx, cache_leftpad,
                       softmax_scale, causal, window_left, window_right, split_keys, num_splits):
    """The library's problem for q and its caches."""
    sizes = sizes_with_cache(q, k_cache, v_cache, cache_seqlens=cache_seqlens,
                             cache_batch_idx=cache_batch_idx, cache_leftpad=cache_leftpad)
    return capi.Problem(**sizes._asdict(), dtype=capi.DTYPES.index(DTYPES[q.dtype]), causal=causal,
                        softmax_scale=softmax_scale, window_left=window_left,
                        window_right=window_right, split_keys=split_keys, num_splits=num_splits)


def problem_of(q, k, v, softmax_scale, causal, window_left, window_right):
    """The library's problem for three tensors of [batch, seq, heads, head_dim]."""
    check_tensors(q, k, v)
    sizes = sizes_of(q, k, v)
    return capi.Problem(**sizes._asdict(), dtype=capi.DTYPES.index(DTYPES[q.dtype]), causal=causal,
                        softmax_scale=softmax_scale, window_left=window_left,
                        window_right=window_right)


def empty_results(q):
    """O and LSE without values."""
    batch, seq, heads, _ = q.shape
    return q.new_empty(q.shape), q.new_empty((batch, heads, seq), dtype=torch.float32)


def check_results(q, o, d_o, lse, wanted):
    """Raises unless the backward pass's other arguments fit Q, K and V."""
    for name, tensor in (("o", o), ("d_o", d_o)):
        if (tensor.shape, tensor.dtype, tensor.device) != (q.shape, q.dtype, q.device):
            raise ValueError(f"{name} is {list(tensor.shape)}, {tensor.dtype}, on {tensor.device}; "
                             f"it must match q: {list(q.shape)}, {q.dtype}, on {q.device}")
    batch, seq, heads, _ = q.shape
    if (tuple(lse.shape), lse.dtype, lse.device) != ((batch, heads, seq), torch.float32, q.device):
        raise ValueError(f"lse is {list(lse.shape)}, {lse.dtype}, on {lse.device}; it must be "
                         f"{[batch, heads, seq]}, torch.float32, on {q.device}")
    if len(wanted) != 3:
        raise ValueError(f"wanted is {list(wanted)}; it must have three values: whether dQ, dK and dV "
                         "are wanted")


def _check_dimensions(named, layout):
    for name, tensor in named.items():
        if tensor.dim() != 4:
            raise ValueError(f"{name} has {tensor.dim()} dimensions; it must have 4: "
                             f"{WORDS[layout]}")


def _are_two_integers(values):
    return len(values) == 2 and is_integer(values[0]) and is_integer(values[1])


def is_integer(value):
    """True for an integer, also a symbolic one, that is not a bool."""
    return isinstance(value, (numbers.Integral, torch.SymInt)) and not isinstance(value, bool)


def _shown(value):
    return repr(value) if isinstance(value, numbers.Number) else f"a {type(value).__name__}"


def _word(dtype):
    return str(dtype).replace("torch.", "")
