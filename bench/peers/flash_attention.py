"""FlashAttention-3 and FlashAttention-4, if they are installed. fa3 is PyPI's fa3-fwd for the forward pass in
bf16, and dew-flash-attn-cu13, called through JAX, for everything else; fa4 is PyPI's flash-attn-4. All take
[B, S, H, D]."""
import contextlib
import functools
import os
import time

import torch

from tables import package_of

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # so that JAX leaves memory for the others


def prepare(name, cell, inputs):
    """The arguments of cells.Prepared: a call that returns the outputs as [B, H, S, D], its context and, for
    a call through JAX, which has its own stream, a function that times several calls."""
    q, k, v, d_o = (tensor.transpose(1, 2) for tensor in inputs)
    if package_of(name, cell.direction, cell.dtype) == "dew_flash_attn":
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
    """A pass of FlashAttention-3."""
    import jax  # pylint: disable=import-error,import-outside-toplevel
    from dew_flash_attn import flash_mha  # pylint: disable=import-error,import-outside-toplevel
    *qkv, d_o = map(jax.dlpack.from_dlpack, tensors)
    forward = functools.partial(flash_mha, is_causal=cell.causal)
    if cell.direction == "forward":
        queue = functools.partial(jax.jit(lambda *qkv: [forward(*qkv)]), *qkv)
    else:
        _, pullback = jax.vjp(forward, *qkv)
        queue = functools.partial(jax.jit(lambda pullback, d_o: pullback(d_o)), pullback, d_o)

    def call():
        return [torch.from_dlpack(output).transpose(1, 2) for output in jax.block_until_ready(queue())]

    def timed(_, calls):
        jax.block_until_ready(queue())
        start = time.perf_counter()
        for _ in range(calls):
            outputs = queue()
        jax.block_until_ready(outputs)
        return (time.perf_counter() - start) * 1e3 / calls
    return call, contextlib.nullcontext, timed
