"""Tensors for the tests, and what is expected of attention on them."""
import torch

import cuflash
from expected import Expected
from cuflash.shapes import DTYPES


def make(device, dtype=torch.float32, heads=(2, 2), seqs=(5, 7), head_dim=32, batch=2, seed=1):
    """q, k and v, N(0, 1), [batch, seq, heads, head_dim], that require gradients."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, seq, count, head_dim, generator=generator)
            .to(device, dtype).requires_grad_()
            for seq, count in ((seqs[0], heads[0]), (seqs[1], heads[1]), (seqs[1], heads[1]))]


def gradient_of(o, seed=2):
    """A dO, N(0, 1)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(o.shape, generator=generator).to(o.device, o.dtype)


def numbers(x):
    """[batch, seq, heads, head_dim] as float32 [batch, heads, seq, head_dim] in NumPy."""
    return x.detach().float().cpu().transpose(1, 2).numpy()


def check(qkv, o, d_o, grads, lse=None, **options):
    """Holds results of attention on q, k and v to the rule; a gradient that is None is left out."""
    expected = Expected(*map(numbers, (*qkv, d_o)), DTYPES[qkv[0].dtype], **options)
    results = {"O": numbers(o)}
    if lse is not None:
        results["LSE"] = lse.cpu().numpy()
    results |= {name: numbers(grad) for name, grad in zip(("dQ", "dK", "dV"), grads)
                if grad is not None}
    expected.check(**results)


def run_and_check(qkv, causal=False, softmax_scale=None, window_size=(-1, -1), **options):
    """Both passes, and everything that they return."""
    o, lse = cuflash.flash_attn_func(*qkv, softmax_scale=softmax_scale, causal=causal,
                                     window_size=window_size, return_lse=True, **options)
    assert o.is_contiguous() and o.dtype == qkv[0].dtype and o.shape == qkv[0].shape
    assert lse.dtype == torch.float32 and not lse.requires_grad
    d_o = gradient_of(o)
    grads = torch.autograd.grad(o, qkv, d_o)
    check(qkv, o, d_o, grads, lse, causal=causal, scale=softmax_scale,
          window_size=window_size)
