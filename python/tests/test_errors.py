"""What is refused, and in which words."""
import types

import pytest

pytest.importorskip("numpy", reason="tensors.py takes it")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import cuflash  # noqa: E402, after the skips
from cuflash import library, ops  # noqa: E402, after the skips
from tensors import make  # noqa: E402, after the skips


def refused(error, words, *qkv, call=cuflash.flash_attn_func, **options):
    """The call raises exactly this, in these words."""
    with pytest.raises(error) as caught:
        call(*qkv, **options)
    assert words in str(caught.value)


def test_no_tensor(device):
    q, k, v = make(device)
    refused(TypeError, "k is a list; it must be a torch.Tensor", q, [1.0], v)
    refused(TypeError, "q is a NoneType", None, k, v)


def test_dtype(device):
    q, k, v = make(device)
    refused(TypeError, "q is float64; it must be float32, float16 or bfloat16", q.double(), k, v)
    refused(TypeError, "one dtype; they have float32, float16, float32", q, k.half(), v)


def test_dimensions(device):
    q, k, v = make(device)
    refused(ValueError, "q has 3 dimensions; it must have 4: [batch, seq, heads, head_dim]",
            q[0], k, v)
    refused(ValueError, "v has 5 dimensions; it must have 4: [batch, heads, seq, head_dim]",
            q, k, v[None], call=cuflash.flash_attention_cuda)


def test_shapes(device):
    q, k, v = make(device)
    refused(ValueError, "q is [2, 5, 2, 32], k is [2, 7, 2, 32], v is [2, 6, 2, 32], as "
            "[batch, seq, heads, head_dim]; k and v must have one shape", q, k, v[:, 1:])
    refused(ValueError, "k is [1, 7, 2, 32]", q, k[:1], v[:1])
    refused(ValueError, "q is [2, 5, 2, 16]", q[..., :16], k, v)
    refused(ValueError, "as [batch, heads, seq, head_dim]", q, k, v[:, 1:],
            call=cuflash.flash_attention_cuda)


def test_head_dim_of_the_module(device):
    refused(ValueError, "Q is [2, 5, 2, 32]; its last dimension must be this module's head_dim, 64",
            *make(device), call=cuflash.FlashAttention(head_dim=64))


def test_what_the_library_refuses(device):
    refused(cuflash.CuflashValueError, "head_dim is 40; it must be 32, 64 or 128",
            *make(device, head_dim=40))
    refused(ValueError, "heads_q is 3, not a multiple of heads_kv, which is 2",
            *make(device, heads=(3, 2)))
    refused(ValueError, "softmax_scale is -1; it must be finite and positive", *make(device),
            softmax_scale=-1.0)
    refused(ValueError, "softmax_scale is nan", *make(device), softmax_scale=float("nan"))
    refused(ValueError, "batch is 0; it must be at least 1", *make(device, batch=0))
    refused(ValueError, "seq_kv is 0", *make(device, seqs=(3, 0)))
    refused(ValueError, "fastest", *make(device), stage="fastest")
    refused(ValueError, "05_wmma does not take f32; it takes f16 and bf16", *make(device),
            stage="05_wmma")


def test_devices():
    q, k, v = make("meta")
    refused(ValueError, "on one device; they are on meta, cpu, meta", q, make("cpu")[1], v)


def test_a_device_without_a_library(monkeypatch):
    library.on.cache_clear()
    monkeypatch.setattr(library, "first",
                        lambda: types.SimpleNamespace(backend="cuda", path="gpu.so"))
    monkeypatch.setattr(library, "_second", lambda: None)
    try:
        refused(RuntimeError, "The tensors are on cpu, and gpu.so computes on cuda", *make("cpu"))
    finally:
        library.on.cache_clear()


def test_the_forward_operator(device):
    q, k, v = make(device)
    options = {"softmax_scale": 0.2, "causal": False, "deterministic": False, "stage": None}
    refused(TypeError, "one dtype; they have float32, float16, float32", q, k.half(), v,
            call=ops.forward, **options)
    refused(ValueError, "k is [2, 7, 2, 16]", q, k[..., :16], v[..., :16], call=ops.forward,
            **options)


def test_the_backward_operator(device):
    q, k, v = (x.detach() for x in make(device))
    o, lse = ops.forward(q, k, v, 0.2, False, False, None)

    def backward(d_o, lse):
        ops.backward(d_o, q, k, v, o, lse, 0.2, False, False, None, [True] * 3)
    refused(ValueError, "d_o is [2, 4, 2, 32]", o[:, 1:], lse, call=backward)
    refused(ValueError, "d_o is [2, 5, 2, 32], torch.float16", o.half(), lse, call=backward)
    refused(ValueError, "lse is [2, 2, 4], torch.float32; it must be [2, 2, 5]", o, lse[..., 1:],
            call=backward)
