"""Attention as functions on tensors."""
import torch

from . import ops
from .capi import as_float, check_int32, escaped
from .shapes import check_arguments_of_others, check_options, check_tensors, empty_results, sizes_of


def flash_attn_func(q, k, v, *positional, softmax_scale=None, causal=False, window_size=(-1, -1),
                    deterministic=False, return_lse=False, stage=None, **others):
    """softmax(softmax_scale · q kᵀ) v, for q of [batch, seq_q, heads_q, head_dim] and k, v of
    [batch, seq_kv, heads_kv, head_dim], float32, float16 or bfloat16. head_dim is 32, 64 or 128; in
    float16 and bfloat16 also 96 and 256.

    heads_q must be a multiple of heads_kv: query head h reads KV head h // (heads_q // heads_kv).
    Options are given by name:

    softmax_scale   default: head_dim ** -0.5
    causal          query i sees key j only if j <= i + seq_kv - seq_q: the last query is aligned
                    with the last key
    window_size     (left, right): query i sees key j only if
                    -left <= j - (i + seq_kv - seq_q) <= right. A side of -1 has no limit. With
                    causal, right is 0, whatever is given. A query that sees no key gives 0, and
                    LSE -inf
    deterministic   compute the same gradients, to the bit, in every run;
                    torch.use_deterministic_algorithms(True) has the same effect. Otherwise the
                    last bits of q's gradient may differ from run to run
    return_lse      return (out, lse): lse is float32 [batch, heads_q, seq_q], the natural log of
                    each row's sum of exponentials. No gradient flows through it
    stage           the name of one of cuflash.stages(); default: the environment variable
                    CUFLASH_STAGE, else the fastest stage that supports the call
    others          arguments of flash-attn and of scaled_dot_product_attention (dropout_p, softcap,
                    attn_mask, ...), if their values have no effect

    Tensors may have any strides; a tensor is copied first only if head_dim has a stride other than
    1, or if its address or another stride is not a multiple of 16 bytes. The result is contiguous.
    Under autocast float32, float16 and bfloat16 become autocast's dtype.
    """
    if positional or others:
        check_arguments_of_others(positional, others)
    o, lse = _attention((q, k, v), "BSHD", softmax_scale, causal, window_size, deterministic, stage,
                        return_lse)
    return (o, lse) if return_lse else o


def flash_attention_cuda(Q, K, V):
    """softmax(Q Kᵀ / √head_dim) V, for tensors of [batch, heads, seq, head_dim]."""
    return attention_bhsd(Q, K, V, causal=False)


def attention_bhsd(q, k, v, causal, window_size=(-1, -1)):
    """flash_attn_func() for [batch, heads, seq, head_dim]. The result has that shape, and is stored
    as [batch, seq, heads, head_dim]."""
    o, _ = _attention((q, k, v), "BHSD", None, causal, window_size, False, None)
    return o.transpose(1, 2)


def _attention(qkv, layout, softmax_scale, causal, window_size, deterministic, stage,
               return_lse=False):
    check_options(softmax_scale, causal, window_size, deterministic, return_lse, stage)
    options = layout, softmax_scale, causal, window_size, deterministic, stage
    if torch.compiler.is_compiling():
        return _unchecked(_checked(qkv, layout), *options)
    try:  # Checks that only explain errors cost a valid call nothing.
        return _unchecked(qkv, *options)
    except torch.cuda.OutOfMemoryError:
        raise
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise _reason(error, qkv, layout) from None


def _reason(error, qkv, layout):
    """An exception that explains the fault of the tensors, or the error itself."""
    try:
        _checked(qkv, layout)
    except (TypeError, ValueError) as found:
        return found
    return error


def _unchecked(qkv, layout, softmax_scale, causal, window_size, deterministic, stage):
    # pylint: disable-next=protected-access
    q, k, v = _autocast(*qkv) if torch._C._is_any_autocast_enabled() else qkv
    if layout == "BHSD":
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    if softmax_scale is None:
        softmax_scale = (q.shape[3] or 1) ** -0.5  # the library refuses a head_dim of 0
    if 0 in q.shape[:2]:  # no query: as SDPA, nothing, and gradients of zeros
        check_tensors(q, k, v)
        sizes_of(q, k, v)
        return q * (k.sum() + v.sum()), empty_results(q)[1]
    window_left, window_right = window_size
    check_int32("window_left", window_left)
    check_int32("window_right", window_right)
    if stage is not None:
        stage = escaped(stage)
    deterministic = deterministic or torch.are_deterministic_algorithms_enabled()
    return ops.attention(q, k, v, as_float(softmax_scale), causal, window_left, window_right,
                         deterministic, stage)


def _checked(qkv, layout):
    """The tensors in autocast's dtype; raises if they do not fit together."""
    qkv = _autocast(*qkv)
    check_tensors(*qkv)
    sizes_of(*qkv, layout)
    return qkv


def _autocast(*qkv):
    """The tensors in autocast's dtype, if it is on, as scaled_dot_product_attention does."""
    device_type = qkv[0].device.type if isinstance(qkv[0], torch.Tensor) else None
    if device_type not in ("cuda", "cpu") or not torch.is_autocast_enabled(device_type):
        return qkv
    dtype = torch.get_autocast_dtype(device_type)
    if all(getattr(tensor, "dtype", None) is dtype for tensor in qkv):  # the usual case, cheaper
        return qkv
    return [tensor.to(dtype) if _is_cast(tensor, device_type) else tensor for tensor in qkv]


def _is_cast(tensor, device_type):
    return (isinstance(tensor, torch.Tensor) and tensor.device.type == device_type
            and tensor.is_floating_point() and tensor.dtype != torch.float64)
