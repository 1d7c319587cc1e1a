"""What is refused, and in which words."""
import fractions
import math
import types

import pytest

np = pytest.importorskip("numpy", reason="tensors.py takes it")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import cuflash  # noqa: E402, after the skips
from cuflash import library, operators, ops  # noqa: E402, after the skips
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
    refused(TypeError, "q is a list", [1], k, v, call=cuflash.FlashAttention(head_dim=32))


def test_dtype(device):
    q, k, v = make(device)
    refused(TypeError, "q is float64; it must be float32, float16 or bfloat16", q.double(), k, v)
    refused(TypeError, "the same dtype; they have float32, float16, float32", q, k.half(), v)


def test_layout(device):
    q, k, v = (x.detach() for x in make(device))
    refused(ValueError, "k is sparse_coo; it must be a dense tensor", q, k.to_sparse(), v)
    nested = torch.nested.nested_tensor([q[0], q[1]])
    refused(ValueError, "q is nested; it must be a dense tensor", nested, k, v)
    refused(ValueError, "q is nested", nested, k, v, call=cuflash.FlashAttention(32))


@pytest.mark.parametrize("name, value, words", [
    ("causal", 0.125, "causal is 0.125, of type float; it must be True or False"),
    ("causal", 1, "causal is 1, of type int"),
    ("causal", np.True_, "of type numpy.bool"),
    ("window_size", 128, "window_size is 128, of type int; it must be (left, right), two integers"),
    ("window_size", (1,), "window_size is (1,), of type tuple"),
    ("window_size", (1.0, 0), "window_size is (1.0, 0)"),
    ("window_size", [True, 0], "window_size is [True, 0]"),
    ("deterministic", None, "deterministic is None, of type NoneType; it must be True or False"),
    ("return_lse", "no", "return_lse is 'no', of type str; it must be True or False"),
    ("softmax_scale", True, "softmax_scale is True, of type bool; it must be a number or None"),
    ("softmax_scale", torch.tensor(1.0), "softmax_scale is tensor(1.), of type torch.Tensor"),
    ("stage", 4, "stage is 4, of type int; it must be a stage's name or None"),
])
def test_types_of_options(name, value, words):
    refused(TypeError, words, *make("meta"), **{name: value})


@pytest.mark.parametrize("value", [0.1, None, 0.0, True])
def test_options_by_position(value):
    shown = "a NoneType" if value is None else value
    refused(TypeError, f"flash_attn_func takes q, k and v by position, then {shown}: write "
            "softmax_scale=... or another option's name (here flash-attn 2 has dropout_p, flash-attn 3 "
            "softmax_scale)", *make("meta"), value, causal=True)


@pytest.mark.parametrize("name, value, words", [
    ("dropout_p", 0.1, "dropout_p is 0.1; it must be 0.0 or left out: there is no dropout"),
    ("dropout_p", None, "dropout_p is a NoneType; it must be 0.0"),
    ("softcap", 30.0, "softcap is 30.0; it must be 0.0 or left out: there is no cap on scores"),
    ("alibi_slopes", torch.ones(2), "alibi_slopes is a Tensor; it must be None"),
    ("return_attn_probs", True, "return_attn_probs is True; it must be False or left out: write "
                                "return_lse=True"),
    ("attn_mask", torch.ones(2, 2), "attn_mask is a Tensor; it must be None or left out: the masks are "
                                    "causal and window_size"),
    ("is_causal", True, "is_causal is True; it must be False or left out: write causal=True"),
    ("scale", 0.0, "scale is 0.0; it must be None or left out: write softmax_scale"),
    ("enable_gqa", True, "enable_gqa is True; it must be False or left out: k and v may"),
    ("causl", True, "unexpected keyword argument 'causl'"),
])
def test_arguments_of_others(name, value, words):
    refused(TypeError, words, *make("meta"), **{name: value})


def test_types_of_the_modules_options():
    with pytest.raises(TypeError, match="causal is 0.1, of type float"):
        cuflash.FlashAttention(64, causal=0.1)
    with pytest.raises(TypeError, match="window_size is 7, of type int"):
        cuflash.FlashAttention(64, window_size=7)
    with pytest.raises(TypeError, match="positional arguments"):
        cuflash.FlashAttention(64, True)


def test_dimensions(device):
    q, k, v = make(device)
    refused(ValueError, "q has 0 dimensions; it must have 4: [batch, heads, seq, head_dim]",
            q.sum(), k, v, call=cuflash.FlashAttention(head_dim=32))
    refused(ValueError, "q has 3 dimensions; it must have 4: [batch, seq, heads, head_dim]",
            q[0], k, v)
    refused(ValueError, "v has 5 dimensions; it must have 4: [batch, heads, seq, head_dim]",
            q, k, v[None], call=cuflash.flash_attention_cuda)


def test_shapes(device):
    q, k, v = make(device)
    refused(ValueError, "q is [2, 5, 2, 32], k is [2, 7, 2, 32], v is [2, 6, 2, 32], as "
            "[batch, seq, heads, head_dim]; k and v must have the same shape", q, k, v[:, 1:])
    refused(ValueError, "k is [1, 7, 2, 32]", q, k[:1], v[:1])
    refused(ValueError, "q is [2, 5, 2, 16]", q[..., :16], k, v)
    refused(ValueError, "as [batch, heads, seq, head_dim]", q, k, v[:, 1:],
            call=cuflash.flash_attention_cuda)


def test_head_dim_of_the_module(device):
    refused(ValueError, "Q is [2, 5, 2, 32]; its last dimension must be this module's head_dim, 64",
            *make(device), call=cuflash.FlashAttention(head_dim=64))
    for head_dim in 40, 0:
        with pytest.raises(cuflash.CuflashValueError, match=f"head_dim is {head_dim}"):
            cuflash.FlashAttention(head_dim)


def test_what_the_library_refuses(device):
    refused(cuflash.CuflashValueError, "head_dim is 40; it must be 32, 64, 96, 128 or 256",
            *make(device, head_dim=40))
    refused(ValueError, "heads_q is 3, not a multiple of heads_kv, which is 2",
            *make(device, heads=(3, 2)))
    refused(ValueError, "softmax_scale is -1; it must be finite and positive", *make(device),
            softmax_scale=-1.0)
    refused(ValueError, "softmax_scale is nan", *make(device), softmax_scale=float("nan"))
    refused(ValueError, "window_left is -2; it must be at least 0, or -1 for no limit",
            *make(device), window_size=(-2, 0))
    refused(ValueError, "window_right is -3", *make(device), causal=True, window_size=(0, -3))
    refused(ValueError, "seq_kv is 0", *make(device, seqs=(3, 0)))
    refused(ValueError, "head_dim is 0", *make(device, head_dim=0))
    refused(ValueError, "fastest", *make(device), stage="fastest")
    refused(ValueError, "05_wmma does not support f32; it supports f16 and bf16", *make(device),
            stage="05_wmma")


@pytest.mark.parametrize("stage", ["", "fastest", "04\0", "\0", "04\0_register_tiles", "ü",
                                   "\ud800"],
                         ids=ascii)
def test_a_stage_that_is_none(device, stage):
    shown = stage.replace("\0", r"\0").replace("\ud800", r"\ud800")
    with pytest.raises(cuflash.CuflashValueError) as caught:
        cuflash.flash_attn_func(*make(device), stage=stage)
    assert f'the call names stage "{shown}", but there is no such stage' in str(caught.value)
    assert caught.value.code is cuflash.capi.ErrorCode.UNKNOWN_STAGE


def test_a_stage_of_the_environment_that_is_not_utf8(device, monkeypatch):
    monkeypatch.setenv("CUFLASH_STAGE", "caf\udce9")  # the byte E9
    refused(cuflash.CuflashValueError, r'CUFLASH_STAGE is "caf\xe9", but there is no such stage',
            *make(device))


@pytest.mark.parametrize("scale, shown", [
    (math.inf, "inf"), (-math.inf, "-inf"), (math.nan, "nan"), (1e39, "inf"), (10**400, "inf"),
    (-10**400, "-inf"), (fractions.Fraction(10**400, 3), "inf"), (0, "0"), (0.0, "0")],
    ids=lambda value: str(value)[:9])
def test_a_scale_that_is_refused(device, scale, shown):
    refused(cuflash.CuflashValueError,
            f"softmax_scale is {shown}; it must be finite and positive", *make(device),
            softmax_scale=scale)


@pytest.mark.parametrize("size", [2**31, 2**32 - 1, -2**31 - 1, 2**64, 10**30])
def test_a_window_beyond_32_bits(device, size):
    refused(ValueError, f"window_left is {size}; it must fit in 32 bits", *make(device),
            window_size=(size, 0))
    refused(ValueError, f"window_right is {size}; it must fit in 32 bits", *make(device),
            window_size=(0, size))


def test_a_window_of_exactly_32_bits(device):
    refused(cuflash.CuflashValueError, f"window_left is {-2**31}; it must be at least 0",
            *make(device), window_size=(-2**31, 0))
    q, k, v = make(device)
    assert torch.equal(cuflash.flash_attn_func(q, k, v, window_size=(2**31 - 1, 2**31 - 1)),
                       cuflash.flash_attn_func(q, k, v))


def test_a_size_beyond_32_bits(device):
    q, k, _ = make(device)
    long = k[:, :1].expand(-1, 2**32 + 1, -1, -1)  # its lower bits say 1
    refused(ValueError, "seq_kv is 4294967297; it must fit in 32 bits", q, long, long)


def test_devices():
    q, k, v = make("meta")
    refused(ValueError, "on the same device; they are on meta, cpu, meta", q, make("cpu")[1], v)


def test_a_device_without_a_library(monkeypatch):
    compiled, _ = operators.load()
    monkeypatch.setattr(library, "first",
                        lambda: types.SimpleNamespace(backend="cuda", path="gpu.so"))
    monkeypatch.setattr(library, "_second", lambda: None)
    library.on.cache_clear()
    try:
        if compiled:
            operators.use(compiled, "cpu", operators.table_of("cpu"))
        refused(RuntimeError, "The tensors are on cpu, and gpu.so computes on cuda", *make("cpu"))
    finally:
        monkeypatch.undo()
        library.on.cache_clear()
        if compiled:
            operators.use(compiled, "cpu", operators.table_of("cpu"))


def test_the_forward_operator(device):
    q, k, v = make(device)
    options = {"softmax_scale": 0.2, "causal": False, "window_left": -1, "window_right": -1,
               "deterministic": False, "stage": None}
    refused(TypeError, "the same dtype; they have float32, float16, float32", q, k.half(), v,
            call=ops.forward, **options)
    refused(ValueError, "k is [2, 7, 2, 16]", q, k[..., :16], v[..., :16], call=ops.forward,
            **options)


@pytest.mark.parametrize("meta", [False, True])
def test_the_backward_operator(device, meta):
    q, k, v = (x.detach() for x in make("meta" if meta else device))
    options = 0.2, False, -1, -1, False, None
    o, lse = ops.forward(q, k, v, *options)

    def backward(d_o, lse, k=k, wanted=3):
        ops.backward(d_o, q, k, v, o, lse, *options, [True] * wanted)
    refused(ValueError, "k is [2, 6, 2, 32]", o, lse, k[:, 1:], call=backward)
    refused(ValueError, "wanted is [True, True]; it must have three values", o, lse, wanted=2,
            call=backward)
    refused(ValueError, "d_o is [2, 4, 2, 32]", o[:, 1:], lse, call=backward)
    refused(ValueError, "d_o is [2, 5, 2, 32], torch.float16", o.half(), lse, call=backward)
    refused(ValueError, f"lse is [2, 2, 4], torch.float32, on {q.device}; it must be [2, 2, 5]", o,
            lse[..., 1:], call=backward)
    other = torch.empty_like(lse, device="meta" if q.device.type == "cpu" else "cpu")
    refused(ValueError, f"torch.float32, on {q.device}", o, other, call=backward)
