"""The operators through ctypes, which are used if the compiled operators cannot be loaded.

Importing it defines torch.ops.cuflash.forward, forward_with_cache and backward. ops.py documents
their arguments and results.
"""
from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import capi, library
from .shapes import check_results, empty_results, problem_of, problem_with_cache

_ALIGNMENT = 16  # bytes, of a tensor's address and strides


def _usable(tensor):
    """The tensor, or a copy of it if the library cannot read its layout."""
    multiple = _ALIGNMENT // tensor.element_size()
    steps = [tensor.stride(n) for n in range(3) if tensor.shape[n] > 1]
    if (tensor.stride(3) == 1 and tensor.data_ptr() % _ALIGNMENT == 0
            and all(step % multiple == 0 for step in steps)):
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def _view(tensor):
    """The tensor as the library's struct."""
    batch, seq, heads, _ = tensor.stride()
    return capi.Tensor(tensor.data_ptr(), batch, heads, seq)


def _queue(direction, problem, args, stage, device):
    """Queues a pass on the device's current stream, with a workspace from PyTorch."""
    chosen = library.on(device.type)
    if device.type == "cpu":  # The library allocates: PyTorch aligns to 64 bytes there, not 256.
        getattr(chosen, direction)(problem, args, stage)
        return
    with torch.cuda.device(device):
        count = chosen.workspace_bytes(direction, problem, stage)
        workspace = torch.empty(count, dtype=torch.uint8, device=device)
        args.workspace, args.workspace_bytes = workspace.data_ptr() or None, count
        stream = torch.cuda.current_stream(device).cuda_stream
        getattr(chosen, direction)(problem, args, stage, stream)


@torch.library.custom_op("cuflash::forward", mutates_args=())
def _forward(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float, causal: bool, window_left: int,
             window_right: int, deterministic: bool, stage: Optional[str]) -> Tuple[Tensor, Tensor]:
    del deterministic  # it is for the backward pass
    problem = problem_of(q, k, v, softmax_scale, causal, window_left, window_right)
    q, k, v = map(_usable, (q, k, v))
    o, lse = empty_results(q)
    args = capi.ForwardArgs(q=_view(q), k=_view(k), v=_view(v), o=_view(o), lse=lse.data_ptr())
    _queue("forward", problem, args, stage, q.device)
    return o, lse


@torch.library.custom_op("cuflash::forward_with_cache", mutates_args=())
def _forward_with_cache(q: Tensor, k_cache: Tensor, v_cache: Tensor, cache_seqlens: Optional[Tensor],
                        cache_batch_idx: Optional[Tensor], cache_leftpad: Optional[Tensor],
                        softmax_scale: float, causal: bool, window_left: int, window_right: int,
                        split_keys: int, num_splits: int,
                        stage: Optional[str]) -> Tuple[Tensor, Tensor]:
    problem = problem_with_cache(q, k_cache, v_cache, cache_seqlens, cache_batch_idx, cache_leftpad,
                                 softmax_scale, causal, window_left, window_right, split_keys,
                                 num_splits)
    q = _usable(q)
    o, lse = empty_results(q)
    arrays = {name: array.contiguous() for name, array in (
        ("seqused_k", cache_seqlens), ("kv_batch", cache_batch_idx), ("k_begin", cache_leftpad))
        if array is not None}
    args = capi.ForwardArgs(q=_view(q), k=_view(k_cache), v=_view(v_cache), o=_view(o),
                            lse=lse.data_ptr(),
                            **{name: array.data_ptr() for name, array in arrays.items()})
    _queue("forward", problem, args, stage, q.device)
    return o, lse


@torch.library.custom_op("cuflash::backward", mutates_args=())
def _backward(d_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor,
              softmax_scale: float, causal: bool, window_left: int, window_right: int,
              deterministic: bool, stage: Optional[str], wanted: Sequence[bool]) -> List[Tensor]:
    problem = problem_of(q, k, v, softmax_scale, causal, window_left, window_right)
    check_results(q, o, d_o, lse, wanted)
    d_o, q, k, v, o = map(_usable, (d_o, q, k, v, o))
    lse = lse.contiguous()
    grads = [x.new_empty(x.shape) if want else None for x, want in zip((q, k, v), wanted)]
    outputs = {name: _view(grad) for name, grad in zip(("dq", "dk", "dv"), grads)
               if grad is not None}
    args = capi.BackwardArgs(deterministic=deterministic, q=_view(q), k=_view(k), v=_view(v),
                             o=_view(o), d_o=_view(d_o), lse=lse.data_ptr(), **outputs)
    _queue("backward", problem, args, stage, q.device)
    return [grad for grad in grads if grad is not None]
