"""FlashAttention-3 and FlashAttention-4, where they are installed: fa3 is PyPI's fa3-fwd, which has the
forward pass alone, and dew-flash-attn-cu13, whose backward pass is called through JAX; fa4 is PyPI's
flash-attn-4. All take [B, S, H, D]."""
import contextlib
import functools
import time

import torch


def prepare(name, cell, inputs):
    """What cells.Prepared takes: a call that returns the outputs as [B, H, S, D], and its context; and for
    a call through JAX, which has a stream of its own, a function that times several."""
    q, k, v, d_o = (tensor.transpose(1, 2) for tensor in inputs)
    if (name, cell.direction) == ("fa3", "backward"):
        return through_jax(cell, q, k, v, d_o)
    if name == "fa3":
        from fa3_fwd_interface import flash_attn_func  # pylint: disable=import-error,import-outside-toplevel
    else:
        from flash_attn.cute import flash_attn_func  # pylint: disable=import-error,import-outside-toplevel

    def forward(*tensors):
        o = flash_attn_func(*tensors, causal=cell.causal)
        return o[0] if isinstance(o, tuple) else o
    if cell.direction == "forward":
        return lambda: (forward(q, k, v).transpose(1, 2),), contextlib.nullcontext
    leaves = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
    o = forward(*leaves)
    return (lambda: [grad.transpose(1, 2) for grad in
                     torch.autograd.grad(o, leaves, d_o, retain_graph=True)], contextlib.nullcontext)


def through_jax(cell, *tensors):
    """FlashAttention-3's backward pass."""
    import jax  # pylint: disable=import-error,import-outside-toplevel
    from dew_flash_attn import flash_mha  # pylint: disable=import-error,import-outside-toplevel
    q, k, v, d_o = map(jax.dlpack.from_dlpack, tensors)
    _, pullback = jax.vjp(functools.partial(flash_mha, is_causal=cell.causal), q, k, v)
    backward = jax.jit(lambda pullback, d_o: pullback(d_o))

    def call():
        grads = jax.block_until_ready(backward(pullback, d_o))
        return [torch.from_dlpack(grad).transpose(1, 2) for grad in grads]

    def timed(_, calls):
        jax.block_until_ready(backward(pullback, d_o))
        start = time.perf_counter()
        for _ in range(calls):
            grads = backward(pullback, d_o)
        jax.block_until_ready(grads)
        return (time.perf_counter() - start) * 1e3 / calls
    return call, contextlib.nullcontext, timed
