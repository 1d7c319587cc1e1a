"""What flash_attn_func() computes, and its gradients, against an oracle in double."""
import pytest

pytest.importorskip("numpy", reason="the oracle is in NumPy")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import cuflash  # noqa: E402, after the skips
from cuflash import operators, ops  # noqa: E402, after the skips
from cuflash.shapes import DTYPES  # noqa: E402, after the skips
from tensors import check, gradient_of, make, run_and_check  # noqa: E402, after the skips
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402, after the skips

HEADS = {"mha": (2, 2), "gqa": (4, 2), "mqa": (3, 1)}
OF_09 = (96, 256)  # which f32 and an older device do without


def run_where_it_fits(qkv, causal=False):
    """run_and_check(), or a skip if the device is too small for one of 09's head dimensions."""
    try:
        run_and_check(qkv, causal)
    except cuflash.CuflashError as error:
        too_small = error.code == cuflash.capi.ErrorCode.UNSUPPORTED_DEVICE
        if not too_small or qkv[0].shape[3] not in OF_09:
            raise
        pytest.skip(str(error))


# ---- Problems -----------------------------------------------------------------------------------

@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_small(device, dtype, heads, causal):
    run_and_check(make(device, dtype, heads, seqs=(9, 35)), causal)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seqs", [(113, 203), (203, 113), (1023, 1024), (1, 777), (512, 1)],
                         ids=str)
@pytest.mark.parametrize("dtype, head_dim",
                         [(dtype, head_dim) for dtype in DTYPES for head_dim in (32, 64, 128, *OF_09)
                          if dtype != torch.float32 or head_dim not in OF_09], ids=str)
def test_large(dtype, head_dim, seqs, causal):
    run_where_it_fits(make("cuda", dtype, (4, 2), seqs, head_dim), causal)


@pytest.mark.parametrize("seqs", [(1, 17), (17, 1), (20, 8)], ids=str)
def test_rows_that_see_no_key(device, seqs):
    run_and_check(make(device, seqs=seqs), causal=True)


@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_head_dims(device, dtype, head_dim):
    run_where_it_fits(make(device, dtype, seqs=(3, 18), head_dim=head_dim))


def test_a_scale_of_ones_own(device):
    run_and_check(make(device), softmax_scale=0.3)


# ---- Stages -------------------------------------------------------------------------------------

def test_a_stage_computes_and_not_another(device):
    qkv = make(device, torch.float16, batch=1, seqs=(33, 39))
    results = {stage: cuflash.flash_attn_func(*qkv, stage=stage) for stage in ("01_naive", "06")}
    assert not torch.equal(*results.values())


def test_stage_without_backward_pass(device):
    qkv = make(device)
    o = cuflash.flash_attn_func(*qkv, stage="02_tiled")
    with pytest.raises(ValueError, match="02_tiled has no backward pass"):
        o.sum().backward()


# ---- Layouts ------------------------------------------------------------------------------------

def packed(q, k, v):
    """Slices of one tensor [batch, seq, 3, heads, head_dim]."""
    return torch.stack((q, k, v), dim=2).unbind(2)


def as_bhsd(*qkv):
    """The same, kept as [batch, heads, seq, head_dim]."""
    return [x.transpose(1, 2).contiguous().transpose(1, 2) for x in qkv]


def padded(*qkv):
    """The same, inside tensors with more rows and wider ones."""
    return [torch.nn.functional.pad(x, (0, 16, 0, 0, 3, 2))[:, 3:-2, :, :-16] for x in qkv]


def one_head_for_all(q, k, v):
    """K and V that every query head shares through a stride of 0."""
    return q, *(x[:, :, :1].expand_as(x) for x in (k, v))


def columns(*qkv):
    """The same, with head_dim as the outermost dimension."""
    return [x.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0) for x in qkv]


def shifted(*qkv):
    """The same, four bytes or two beyond an aligned address."""
    return [torch.cat((x.new_zeros(1), x.flatten()))[1:].view(x.shape) for x in qkv]


def spread(dim, qkv):
    """The same, with gaps between heads; the stride of one dimension is 8 bytes too long."""
    for x in qkv:
        _, seq, heads, _ = x.shape
        strides = [seq * heads * 64, heads * 64, 64, 1]
        strides[dim] += 8 // x.element_size()
        yield torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device).copy_(x)


def odd_batches(*qkv):
    """Batches that do not begin at multiples of 16 bytes."""
    return spread(0, qkv)


def odd_rows(*qkv):
    """Rows that do not."""
    return spread(1, qkv)


def odd_heads(*qkv):
    """Heads that do not."""
    return spread(2, qkv)


def one_odd_head(*qkv):
    """One head alone: the stride to the next would not do, and is not read."""
    return [x[:, :, :1] for x in odd_heads(*qkv)]


AS_THEY_LIE = [packed, as_bhsd, padded, one_head_for_all, one_odd_head]
COPIED = [columns, shifted, odd_batches, odd_rows, odd_heads]


@pytest.mark.parametrize("layout", AS_THEY_LIE + COPIED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_layout(device, layout, dtype):
    qkv = [x.detach().requires_grad_() for x in layout(*make(device, dtype, seqs=(7, 7)))]
    run_and_check(qkv, causal=True)


@pytest.mark.parametrize("layout", AS_THEY_LIE + COPIED)
def test_only_what_cannot_be_read_is_copied(device, calls, layout):
    qkv = [x.detach() for x in layout(*make(device, seqs=(7, 7)))]
    cuflash.flash_attn_func(*qkv)
    (_, _, args), = calls
    addresses = [tensor.data for tensor in (args.q, args.k, args.v)]
    for x, address in zip(qkv, addresses):
        assert (address == x.data_ptr()) == (layout in AS_THEY_LIE)


def test_lse_of_any_strides(device):
    q, k, v = (x.detach() for x in make(device))
    options = 0.2, True, -1, -1, True, None
    o, lse = ops.forward(q, k, v, *options)
    swapped = lse.transpose(1, 2).contiguous().transpose(1, 2)
    assert not swapped.is_contiguous()
    d_o, wanted = gradient_of(o), [True, True, True]
    want = ops.backward(d_o, q, k, v, o, lse, *options, wanted)
    for x, y in zip(ops.backward(d_o, q, k, v, o, swapped, *options, wanted), want):
        assert torch.equal(x, y)


def test_expanded_gradient(device):
    qkv = make(device)
    o = cuflash.flash_attn_func(*qkv)
    grads = torch.autograd.grad(o.sum(), qkv)  # its dO has stride 0 everywhere
    check(qkv, o, torch.ones_like(o), grads)


def test_only_the_gradients_that_are_asked_for(device, calls):
    q, k, v = make(device)
    for wanted in ([q], [k], [v], [q, v]):
        calls.clear()
        o = cuflash.flash_attn_func(*(x if any(x is w for w in wanted) else x.detach()
                                      for x in (q, k, v)))
        d_o = gradient_of(o)
        found = iter(torch.autograd.grad(o, wanted, d_o))
        asked = [any(x is w for w in wanted) for x in (q, k, v)]
        args = calls[1][2]
        assert [bool(grad.data) for grad in (args.dq, args.dk, args.dv)] == asked
        check((q, k, v), o, d_o, [next(found) if one else None for one in asked])


def test_only_the_gradients_that_this_backward_pass_needs(device, calls):
    in_cpp, why = operators.gradients()
    if in_cpp is None:
        pytest.skip(f"Python does not learn which: {why}")
    q, k, v = make(device)
    o = cuflash.flash_attn_func(q, k, v)
    d_o = gradient_of(o)
    check((q, k, v), o, d_o, [None, *torch.autograd.grad(o, [k], d_o), None])
    args = calls[1][2]
    assert [bool(grad.data) for grad in (args.dq, args.dk, args.dv)] == [False, True, False]


def test_the_window_reaches_both_passes(device, calls):
    qkv = make(device, seqs=(7, 7))
    cuflash.flash_attn_func(*qkv, causal=True, window_size=(3, 2)).sum().backward()
    cuflash.flash_attn_func(*qkv).sum().backward()
    bhsd = [x.transpose(1, 2) for x in qkv]
    cuflash.FlashAttention(32, window_size=[4, -1])(*bhsd).sum().backward()
    cuflash.flash_attention_cuda(*bhsd).sum().backward()
    asked = [(problem.causal, problem.window_left, problem.window_right)
             for _, problem, _ in calls]
    assert asked[::2] == asked[1::2] == [(1, 3, 2), (0, -1, -1), (0, 4, -1), (0, -1, -1)]


@pytest.mark.gpu
def test_no_memory_but_the_results():
    qkv = [x.detach() for x in packed(*make("cuda", torch.float16, (8, 8), (1024, 1024), 64))]
    cuflash.flash_attn_func(*qkv)  # what is allocated once
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    o, lse = cuflash.flash_attn_func(*qkv, return_lse=True)
    results = o.nbytes + lse.nbytes
    assert torch.cuda.max_memory_allocated() - before < results + 0.5 * o.nbytes


# ---- Beside PyTorch's own -----------------------------------------------------------------------

@pytest.mark.parametrize("causal", [False, True])
def test_as_sdpa_in_double(device, causal):
    q, k, v = make(device, torch.float32, seqs=(11, 11))
    o = cuflash.flash_attn_func(q, k, v, causal=causal)
    d_o = gradient_of(o)
    grads = torch.autograd.grad(o, (q, k, v), d_o)
    twins = [x.detach().double().transpose(1, 2).requires_grad_() for x in (q, k, v)]
    want = scaled_dot_product_attention(*twins, is_causal=causal)
    want_grads = torch.autograd.grad(want, twins, d_o.double().transpose(1, 2))
    for got, wanted in zip((o, *grads), (want, *want_grads)):
        torch.testing.assert_close(got.double(), wanted.transpose(1, 2), rtol=0, atol=1e-5)


@pytest.mark.parametrize("seqs", [(1, 19), (4, 7)], ids=str)
def test_causal_is_aligned_at_the_end_and_sdpas_at_the_beginning(device, seqs):
    q, k, v = (x.detach() for x in make(device, torch.float32, seqs=seqs))
    bhsd = [x.transpose(1, 2) for x in (q, k, v)]
    last = torch.ones(seqs, dtype=torch.bool, device=device).tril(seqs[1] - seqs[0])
    o = cuflash.flash_attn_func(q, k, v, causal=True).transpose(1, 2)
    want = scaled_dot_product_attention(*bhsd, attn_mask=last)
    torch.testing.assert_close(o, want, rtol=0, atol=1e-5)
    assert (scaled_dot_product_attention(*bhsd, is_causal=True) - o).abs().max() > 0.1


# ---- The other two forms ------------------------------------------------------------------------

@pytest.mark.parametrize("causal", [False, True])
def test_module(device, causal):
    qkv = [x.detach().transpose(1, 2).contiguous().requires_grad_() for x in make(device)]
    out = cuflash.FlashAttention(head_dim=32, causal=causal)(*qkv)
    assert out.shape == qkv[0].shape
    out.sum().backward()
    check([x.transpose(1, 2) for x in qkv], out.transpose(1, 2),
          torch.ones_like(out).transpose(1, 2), [x.grad.transpose(1, 2) for x in qkv],
          causal=causal)


def test_shortest_form(device):
    q, k, v = (x.detach() for x in make(device))
    out = cuflash.flash_attention_cuda(*(x.transpose(1, 2) for x in (q, k, v)))
    assert torch.equal(out.transpose(1, 2), cuflash.flash_attn_func(q, k, v))
