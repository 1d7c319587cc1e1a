"""Both passes as PyTorch operators, torch.ops.cuflash.forward and torch.ops.cuflash.backward.

All tensors are [batch, seq, heads, head_dim], with any strides; LSE is float32 [batch, heads, seq].
Results are contiguous.
"""
import functools
import warnings
from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import capi, library
from .shapes import DTYPES, check_tensors, sizes_of

_ALIGNMENT = 16  # bytes, of a tensor's address and strides


# ---- To the library -----------------------------------------------------------------------------

def _problem(q, k, v, softmax_scale, causal, window_left, window_right):
    check_tensors(q, k, v)
    sizes = sizes_of(q, k, v)
    return capi.Problem(**sizes._asdict(), dtype=capi.DTYPES.index(DTYPES[q.dtype]), causal=causal,
                        softmax_scale=softmax_scale, window_left=window_left,
                        window_right=window_right)


def _usable(tensor):
    """The tensor, or a copy of it where the library could not read it as it lies."""
    multiple = _ALIGNMENT // tensor.element_size()
    steps = [tensor.stride(n) for n in range(3) if tensor.shape[n] > 1]
    if (tensor.stride(3) == 1 and tensor.data_ptr() % _ALIGNMENT == 0
            and all(step % multiple == 0 for step in steps)):
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def _view(tensor):
    """The tensor for the library."""
    batch, seq, heads, _ = tensor.stride()
    return capi.Tensor(tensor.data_ptr(), batch, heads, seq)


def _queue(direction, problem, args, stage, device):
    """Queues a pass on the device's current stream, with a workspace from PyTorch."""
    chosen = library.on(device.type)
    if device.type == "cpu":  # The library allocates: PyTorch aligns to 64 bytes there, not 256.
        _say_that_it_is_slow()
        getattr(chosen, direction)(problem, args, stage)
        return
    with torch.cuda.device(device):
        count = chosen.workspace_bytes(direction, problem, stage)
        workspace = torch.empty(count, dtype=torch.uint8, device=device)
        args.workspace, args.workspace_bytes = workspace.data_ptr() or None, count
        stream = torch.cuda.current_stream(device).cuda_stream
        getattr(chosen, direction)(problem, args, stage, stream)


@functools.lru_cache(maxsize=None)
def _say_that_it_is_slow():
    warnings.warn("cuflash: tensors on cpu are computed by the CPU simulator, which shows what "
                  "kernels do and is slow.", stacklevel=2)


# ---- The operators ------------------------------------------------------------------------------

@torch.library.custom_op("cuflash::forward", mutates_args=())
def forward(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float, causal: bool, window_left: int,
            window_right: int, deterministic: bool, stage: Optional[str]) -> Tuple[Tensor, Tensor]:
    """O and LSE. `deterministic` is for the backward pass."""
    problem = _problem(q, k, v, softmax_scale, causal, window_left, window_right)
    q, k, v = map(_usable, (q, k, v))
    o, lse = _empty_results(q)
    args = capi.ForwardArgs(q=_view(q), k=_view(k), v=_view(v), o=_view(o), lse=lse.data_ptr())
    _queue("forward", problem, args, stage, q.device)
    return o, lse


@torch.library.custom_op("cuflash::backward", mutates_args=())
def backward(d_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor,
             softmax_scale: float, causal: bool, window_left: int, window_right: int,
             deterministic: bool, stage: Optional[str], wanted: Sequence[bool]) -> List[Tensor]:
    """Those of dQ, dK and dV that are wanted."""
    problem = _problem(q, k, v, softmax_scale, causal, window_left, window_right)
    _check_results(q, o, d_o, lse, wanted)
    d_o, q, k, v, o = map(_usable, (d_o, q, k, v, o))
    lse = lse.contiguous()
    grads = [x.new_empty(x.shape) if want else None for x, want in zip((q, k, v), wanted)]
    outputs = {name: _view(grad) for name, grad in zip(("dq", "dk", "dv"), grads)
               if grad is not None}
    args = capi.BackwardArgs(deterministic=deterministic, q=_view(q), k=_view(k), v=_view(v),
                             o=_view(o), d_o=_view(d_o), lse=lse.data_ptr(), **outputs)
    _queue("backward", problem, args, stage, q.device)
    return [grad for grad in grads if grad is not None]


def _empty_results(q):
    batch, seq, heads, _ = q.shape
    return q.new_empty(q.shape), q.new_empty((batch, heads, seq), dtype=torch.float32)


def _check_results(q, o, d_o, lse, wanted):
    for name, tensor in (("o", o), ("d_o", d_o)):
        if (tensor.shape, tensor.dtype, tensor.device) != (q.shape, q.dtype, q.device):
            raise ValueError(f"{name} is {list(tensor.shape)}, {tensor.dtype}, on {tensor.device}; "
                             f"it must be as q: {list(q.shape)}, {q.dtype}, on {q.device}")
    batch, seq, heads, _ = q.shape
    if (tuple(lse.shape), lse.dtype, lse.device) != ((batch, heads, seq), torch.float32, q.device):
        raise ValueError(f"lse is {list(lse.shape)}, {lse.dtype}, on {lse.device}; it must be "
                         f"{[batch, heads, seq]}, torch.float32, on {q.device}")
    if len(wanted) != 3:
        raise ValueError(f"wanted is {list(wanted)}; it must say of dQ, dK and dV if it is wanted")


@forward.register_fake
def _(q, k, v, *_options):
    check_tensors(q, k, v)
    sizes_of(q, k, v)
    return _empty_results(q)


@backward.register_fake
def _(d_o, q, k, v, o, lse, *options):
    *_, wanted = options
    check_tensors(q, k, v)
    sizes_of(q, k, v)
    _check_results(q, o, d_o, lse, wanted)
    return [x.new_empty(x.shape) for x, want in zip((q, k, v), wanted) if want]


# ---- Gradients ----------------------------------------------------------------------------------

def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3], *output)
    ctx.options = inputs[3:]
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx, d_o, _):
    wanted = list(ctx.needs_input_grad[:3])
    found = iter(backward(d_o, *ctx.saved_tensors, *ctx.options, wanted))
    return (*(next(found) if want else None for want in wanted), *(None for _ in ctx.options))


def _no_second_derivative(ctx, *grads):
    raise RuntimeError("cuflash computes first derivatives only: there is no backward pass of its "
                       "backward pass. For a second derivative use scaled_dot_product_attention "
                       "with the backend SDPBackend.MATH.")


forward.register_autograd(_gradients, setup_context=_keep)
backward.register_autograd(_no_second_derivative, setup_context=lambda ctx, inputs, output: None)
