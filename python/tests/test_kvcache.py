"""Attention to a cache of keys and values."""
import inspect

import pytest

np = pytest.importorskip("numpy", reason="the oracle is in NumPy")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import cuflash  # noqa: E402, after the skips
from cuflash import flash_attn_with_kvcache  # noqa: E402, after the skips
from tensors import check, gradient_of, make  # noqa: E402, after the skips
from torch.library import opcheck  # noqa: E402, after the skips

NAN = float("nan")


def tensors(device, dtype=torch.float16, heads=(4, 2), seqs=(1, 70), head_dim=32, batch=3, seed=1):
    """q, k_cache and v_cache."""
    return [x.detach() for x in make(device, dtype, heads, seqs, head_dim, batch, seed)]


def int32(numbers, device):
    """An array of a cache."""
    return torch.tensor(numbers, dtype=torch.int32, device=device)


def assert_rows(q, caches, out, lse, begins, ends, which=None, causal=False, window_size=(-1, -1)):
    """Holds each sequence's results to the rule; its keys are begin … end - 1 of its caches."""
    assert out.is_contiguous() and out.dtype == q.dtype and out.shape == q.shape
    assert lse.dtype == torch.float32
    for b, (begin, end) in enumerate(zip(begins, ends)):
        cache = which[b] if which else b
        k, v = (x[cache:cache + 1, begin:end] for x in caches)
        o = out[b:b + 1]
        check((q[b:b + 1], k, v), o, gradient_of(o), (), lse[b:b + 1], causal=causal,
              window_size=window_size)


def forget_beyond(caches, lengths):
    """Fills what lies behind each sequence's keys with NaN."""
    for cache in caches:
        for b, length in enumerate(lengths):
            cache[b, length:] = NAN


def test_signature():
    of_flash_attn = ("q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, "
                     "cache_seqlens=None, cache_batch_idx=None, cache_leftpad=None, block_table=None, "
                     "softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, "
                     "rotary_interleaved=True, alibi_slopes=None, num_splits=0, "
                     "return_softmax_lse=False")
    assert str(inspect.signature(flash_attn_with_kvcache)) == f"({of_flash_attn}, *, split_keys=0)"


# ---- Values -------------------------------------------------------------------------------------

@pytest.mark.parametrize("causal, window_size", [(False, (-1, -1)), (True, (-1, -1)), (True, (9, -1)),
                                                 (False, (5, 2))], ids=str)
@pytest.mark.parametrize("seq_q", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_lengths(device, dtype, seq_q, causal, window_size):
    q, *caches = tensors(device, dtype, seqs=(seq_q, 70))
    lengths = [70, 1, 33]
    forget_beyond(caches, lengths)
    out, lse = flash_attn_with_kvcache(q, *caches, cache_seqlens=int32(lengths, device),
                                       causal=causal, window_size=window_size,
                                       return_softmax_lse=True)
    assert_rows(q, caches, out, lse, [0] * 3, lengths, causal=causal, window_size=window_size)


def test_one_length_for_all(device):
    q, *caches = tensors(device)
    forget_beyond(caches, [20] * 3)
    out, lse = flash_attn_with_kvcache(q, *caches, cache_seqlens=20, return_softmax_lse=True)
    assert_rows(q, caches, out, lse, [0] * 3, [20] * 3)
    same = flash_attn_with_kvcache(q, *caches, cache_seqlens=int32([20] * 3, device))
    assert torch.equal(out, same)


def test_no_lengths(device):
    q, *caches = tensors(device)
    out, lse = flash_attn_with_kvcache(q, *caches, return_softmax_lse=True)
    assert_rows(q, caches, out, lse, [0] * 3, [70] * 3)


def test_lengths_that_are_0_or_none(device):
    q, *caches = tensors(device)
    out, lse = flash_attn_with_kvcache(q, *caches, cache_seqlens=int32([0, -1, 71], device),
                                       return_softmax_lse=True)
    assert not out[0].any() and torch.isneginf(lse[0]).all()
    assert out[1:].isnan().all() and lse[1:].isnan().all()


def test_padding_and_chosen_caches(device):
    q, *caches = tensors(device, batch=3)
    q, which, begins, ends = q[:2], [2, 0], [5, 64], [40, 66]
    for cache in caches:
        cache[1] = NAN
        for number, begin, end in zip(which, begins, ends):
            cache[number, :begin] = cache[number, end:] = NAN
    out, lse = flash_attn_with_kvcache(
        q, *caches, cache_seqlens=int32(ends, device), cache_leftpad=int32(begins, device),
        cache_batch_idx=int32(which, device), return_softmax_lse=True)
    assert_rows(q, caches, out, lse, begins, ends, which)


def test_strides(device):
    q, *caches = tensors(device)
    lengths = torch.stack([int32([70, 1, 33], device), int32([0] * 3, device)], 1)[:, 0]
    assert not lengths.is_contiguous()
    want = flash_attn_with_kvcache(q, *caches, cache_seqlens=lengths.contiguous())
    bhsd = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in caches]
    with_gaps = q.transpose(2, 3).contiguous().transpose(2, 3)
    assert torch.equal(flash_attn_with_kvcache(with_gaps, *bhsd, cache_seqlens=lengths), want)


def test_scale(device):
    q, *caches = tensors(device)
    assert torch.equal(flash_attn_with_kvcache(q, *caches, softmax_scale=32 ** -0.5),
                       flash_attn_with_kvcache(q, *caches))
    assert not torch.equal(flash_attn_with_kvcache(q, *caches, softmax_scale=1),
                           flash_attn_with_kvcache(q, *caches))


@pytest.mark.parametrize("causal", [False, True])
def test_bits_of_a_row(device, causal):
    q, *caches = tensors(device, seqs=(3, 200))
    lengths = int32([200, 70, 131], device)
    options = {"causal": causal, "split_keys": 64, "return_softmax_lse": True}
    out, lse = flash_attn_with_kvcache(q, *caches, cache_seqlens=lengths, **options)
    for b, length in enumerate(lengths.tolist()):
        alone = [x[b:b + 1, :length] for x in caches]
        last, last_lse = flash_attn_with_kvcache(q[b:b + 1, 2:], *alone, **options)
        assert torch.equal(last, out[b:b + 1, 2:]) and torch.equal(last_lse, lse[b:b + 1, :, 2:])


def test_splits(device, calls):
    q, *caches = tensors(device, seqs=(1, 200))
    for num_splits in 1, 3:
        out, lse = flash_attn_with_kvcache(q, *caches, num_splits=num_splits,
                                           return_softmax_lse=True)
        assert_rows(q, caches, out, lse, [0] * 3, [200] * 3)
    flash_attn_with_kvcache(q, *caches, split_keys=128)
    assert [(p.num_splits, p.split_keys) for _, p, _ in calls] == [(1, 0), (3, 0), (0, 128)]


def test_no_queries_and_no_gradients(device):
    q, *caches = tensors(device)
    out, lse = flash_attn_with_kvcache(q[:, :0], *caches, return_softmax_lse=True)
    assert out.shape == (3, 0, 4, 32) and lse.shape == (3, 4, 0)
    assert flash_attn_with_kvcache(q[:0], *(x[:0] for x in caches), cache_seqlens=1).numel() == 0
    new = torch.ones(3, 1, 2, 32, dtype=q.dtype, device=device, requires_grad=True)
    out = flash_attn_with_kvcache(q.requires_grad_(), *caches, new, new, cache_seqlens=0)
    assert not out.requires_grad and not caches[0].requires_grad


# ---- New keys -----------------------------------------------------------------------------------

def appended(caches, news, lengths, which=None):
    """What the caches must hold, row by row."""
    caches = [x.clone() for x in caches]
    for cache, new in zip(caches, news):
        for b, length in enumerate(lengths):
            for row in range(new.shape[1]):
                if 0 <= length + row < cache.shape[1]:
                    cache[which[b] if which else b, length + row] = new[b, row]
    return caches


def new_keys(device, num_new, batch=3, dtype=torch.float16):
    """k and v."""
    _, *news = tensors(device, dtype, seqs=(1, num_new), batch=batch, seed=3)
    return news


@pytest.mark.parametrize("num_new", [0, 1, 3])
@pytest.mark.parametrize("causal", [False, True])
def test_append(device, num_new, causal):
    q, *caches = tensors(device, seqs=(max(num_new, 1), 70))
    news, lengths = new_keys(device, num_new), [70 - num_new, 12, 5]
    forget_beyond(caches, lengths)
    want = appended(caches, news, lengths)
    array = int32(lengths, device)
    out, lse = flash_attn_with_kvcache(q, *caches, *news, cache_seqlens=array, causal=causal,
                                       return_softmax_lse=True)
    assert array.tolist() == lengths
    for cache, wanted in zip(caches, want):
        assert torch.equal(cache.nan_to_num(), wanted.nan_to_num())
    assert_rows(q, caches, out, lse, [0] * 3, [n + num_new for n in lengths], causal=causal)


def test_append_with_one_length_for_all(device):
    q, *caches = tensors(device)
    news, others = new_keys(device, 3), [x.clone() for x in caches]
    out = flash_attn_with_kvcache(q, *caches, *news, cache_seqlens=67)
    want = flash_attn_with_kvcache(q, *others, *news, cache_seqlens=int32([67] * 3, device))
    assert torch.equal(out, want)
    for cache, other in zip(caches, others):
        assert torch.equal(cache, other)
        assert torch.equal(cache[:, 67:], news[0] if cache is caches[0] else news[1])


@pytest.mark.parametrize("num_new, lengths", [
    (3, [68, 69, 70]), (3, [71, 1000, 2**31 - 1]), (3, [-1, -3, -2**31]), (75, [0, 1, 69])], ids=str)
def test_append_beyond_the_capacity(device, num_new, lengths):
    q, *caches = tensors(device)
    news = new_keys(device, num_new)
    # A cache between two others, which nothing may change.
    around = [torch.cat([x, x, x], 1) for x in caches]
    caches = [x[:, 70:140] for x in around]
    want = appended(caches, news, lengths)
    out = flash_attn_with_kvcache(q, *caches, *news, cache_seqlens=int32(lengths, device))
    valid = [0 <= length + num_new <= 70 for length in lengths]
    assert out.flatten(1).isnan().all(1).tolist() == [not x for x in valid]
    for cache, wanted, whole in zip(caches, want, around):
        assert torch.equal(cache, wanted)
        assert torch.equal(whole[:, :70], whole[:, 140:])


def test_append_to_chosen_caches(device):
    q, *caches = tensors(device)
    q, which, lengths = q[:2], [2, 0], [8, 69]
    news = new_keys(device, 1, batch=2)
    want = appended(caches, news, lengths, which)
    out, lse = flash_attn_with_kvcache(
        q, *caches, *news, cache_seqlens=int32(lengths, device),
        cache_batch_idx=int32(which, device), return_softmax_lse=True)
    for cache, wanted in zip(caches, want):
        assert torch.equal(cache, wanted)
    assert_rows(q, caches, out, lse, [0, 0], [9, 70], which)


def test_generate(device):
    """Token by token, as all at once."""
    q, k, v = tensors(device, seqs=(9, 9))
    caches = [torch.full_like(x, NAN) for x in (k, v)]
    want = cuflash.flash_attn_func(q, k, v, causal=True)
    for n in range(9):
        out = flash_attn_with_kvcache(q[:, n:n + 1], *caches, k[:, n:n + 1], v[:, n:n + 1],
                                      cache_seqlens=n, causal=True)
        torch.testing.assert_close(out, want[:, n:n + 1], rtol=0, atol=2e-3)


# ---- What is refused ----------------------------------------------------------------------------

@pytest.mark.parametrize("name, value, words", [
    ("rotary_cos", torch.ones(2), "rotary_cos is a Tensor; it must be None or left out: rotate q and k "
                                  "before the call"),
    ("rotary_sin", torch.ones(2), "rotary_sin is a Tensor; it must be None or left out: rotate q and k"),
    ("block_table", torch.ones(2), "block_table is a Tensor; it must be None or left out: there are no "
                                   "pages; cache_batch_idx chooses among whole caches"),
    ("alibi_slopes", torch.ones(2), "alibi_slopes is a Tensor; it must be None or left out: there is "
                                    "no bias"),
    ("softcap", 30.0, "softcap is 30.0; it must be 0.0 or left out: there is no cap on scores"),
    ("causal", 1, "causal is 1, of type int; it must be True or False"),
    ("window_size", 3, "window_size is 3, of type int; it must be (left, right), two integers"),
    ("softmax_scale", True, "softmax_scale is True, of type bool; it must be a number or None"),
    ("return_softmax_lse", 1, "return_softmax_lse is 1, of type int; it must be True or False"),
    ("num_splits", 1.0, "num_splits is 1.0, of type float; it must be an integer"),
    ("split_keys", True, "split_keys is True, of type bool; it must be an integer"),
    ("cache_seqlens", [1, 2, 3], "cache_seqlens is a list; it must be a torch.Tensor or an integer"),
    ("cache_seqlens", True, "cache_seqlens is a bool; it must be a torch.Tensor or an integer"),
    ("cache_leftpad", 1, "cache_leftpad is a int; it must be a torch.Tensor"),
])
def test_types(name, value, words):
    with pytest.raises(TypeError) as caught:
        flash_attn_with_kvcache(*tensors("meta"), **{name: value})
    assert words in str(caught.value)


def test_what_has_no_effect(device):
    q, *caches = tensors(device)
    out = flash_attn_with_kvcache(q, *caches, softcap=0, rotary_interleaved=False)
    assert torch.equal(out, flash_attn_with_kvcache(q, *caches))


def refused(words, *args, error=ValueError, **options):
    """The call raises this, in these words."""
    with pytest.raises(error) as caught:
        flash_attn_with_kvcache(*args, **options)
    assert words in str(caught.value)


def test_tensors_that_do_not_fit(device):
    q, k, v = tensors(device)
    refused("k_cache is a NoneType; it must be a torch.Tensor", q, None, v, error=TypeError)
    refused("q, k_cache and v_cache must have the same dtype; they have float16, bfloat16, float16", q,
            k.bfloat16(), v, error=TypeError)
    refused("v_cache has 3 dimensions; it must have 4: [batch, seq, heads, head_dim]", q, k, v[0])
    refused("k_cache is [3, 70, 2, 32], v_cache is [3, 69, 2, 32], as [batch, seq, heads, head_dim]; the "
            "caches must have the same shape", q, k, v[:, 1:])
    refused("q is [3, 1, 4, 16]", q[..., :16], k, v)
    refused("with q's head_dim and, without cache_batch_idx, q's batch", q[:2], k, v)
    wide = v.transpose(2, 3).contiguous().transpose(2, 3)
    refused("v_cache has a stride of 2 elements in head_dim; it must be 1: a cache is never copied", q,
            k, wide)


def test_arrays_that_do_not_fit(device):
    qkv = tensors(device)
    refused(f"cache_seqlens is [2], torch.int32, on {qkv[0].device}; it must be [3], torch.int32", *qkv,
            cache_seqlens=int32([1, 2], device))
    refused("cache_leftpad is [3], torch.int64", *qkv, cache_leftpad=int32([1] * 3, device).long())
    refused("cache_batch_idx is [3], torch.int32, on meta", *qkv,
            cache_batch_idx=int32([1] * 3, "meta"))


def test_new_keys_that_do_not_fit(device):
    q, *caches = tensors(device)
    k, v = new_keys(device, 2)
    before = [x.clone() for x in caches]
    refused("v is a NoneType; it must be a torch.Tensor", q, *caches, k, cache_seqlens=1,
            error=TypeError)
    refused("q, k and v must have the same dtype", q, *caches, k.float(), v, cache_seqlens=1,
            error=TypeError)
    refused("k is [3, 2, 2, 32], v is [3, 1, 2, 32]; both must be [3, 2, 2, 32]", q, *caches, k,
            v[:, 1:], cache_seqlens=1)
    refused("k is [2, 2, 2, 32], v is [2, 2, 2, 32]; both must be [3, 2, 2, 32]", q, *caches, k[1:],
            v[1:], cache_seqlens=1)
    refused("cache_seqlens is None; it must say where k and v are to be written", q, *caches, k, v)
    refused("cache_seqlens is 69, and 2 keys are new; the caches have room for 70 keys", q, *caches, k,
            v, cache_seqlens=69)
    refused("cache_seqlens is -1, and 0 keys are new", q, *caches, cache_seqlens=-1)
    refused("k_cache has no room for a key", q, *(x[:, :0] for x in caches), k, v,
            cache_seqlens=int32([0] * 3, device))
    assert all(map(torch.equal, caches, before))


def test_what_the_library_refuses(device):
    q, *caches = tensors(device)
    refuses = cuflash.CuflashValueError
    refused("20_split_kv does not support f32; it supports f16 and bf16", q.float(),
            *(x.float() for x in caches), error=refuses)
    refused("head_dim is 16", *(x[..., :16] for x in (q, *caches)), error=refuses)
    refused("heads_q is 3", q[:, :, 1:], *caches, error=refuses)
    refused("softmax_scale is -1", q, *caches, softmax_scale=-1, error=refuses)
    refused("window_left is -2", q, *caches, window_size=(-2, 0), error=refuses)
    refused("split_keys is 32", q, *caches, split_keys=32, error=refuses)
    refused("num_splits is -1", q, *caches, num_splits=-1, error=refuses)
    refused("split_keys", q, *caches, split_keys=64, num_splits=2, error=refuses)
    refused(f"num_splits is {2**31}; it must fit in 32 bits", q, *caches, num_splits=2**31)
    refused("K's head_stride is 36 elements, not a multiple of 8", q,
            *(torch.nn.functional.pad(x, (0, 4))[..., :32] for x in caches), error=refuses)


# ---- PyTorch ------------------------------------------------------------------------------------

def test_opcheck(device):
    q, *caches = tensors(device)
    array = int32([1, 0, 2], device)
    for arrays in (None,) * 3, (array,) * 3:
        opcheck(torch.ops.cuflash.forward_with_cache.default,
                (q, *caches, *arrays, 0.2, True, 3, -1, 64, 0, "20_split_kv"))


def test_fake_results():
    q, *caches = tensors("meta")
    out, lse = flash_attn_with_kvcache(q, *caches, *new_keys("meta", 3), cache_seqlens=4,
                                       return_softmax_lse=True)
    assert out.shape == q.shape and lse.shape == (3, 4, 1) and lse.dtype == torch.float32


@pytest.mark.parametrize("backend, dynamic", [("inductor", False), ("aot_eager", True)])
def test_compile(device, backend, dynamic):
    def step(q, k_cache, v_cache, k, v, lengths):
        out = flash_attn_with_kvcache(q * 2, k_cache, v_cache, k, v, cache_seqlens=lengths,
                                      causal=True)
        return out + 1
    compiled = torch.compile(step, fullgraph=True, dynamic=dynamic, backend=backend)
    q, *caches = tensors(device)
    others, news = [x.clone() for x in caches], new_keys(device, 2)
    for lengths in int32([0, 68, 69], device), int32([2, 70, 5], device), 7, 8:
        got = compiled(q, *caches, *news, lengths)
        torch.testing.assert_close(got, step(q, *others, *news, lengths), equal_nan=True)
        assert all(map(torch.equal, caches, others))


@pytest.mark.gpu
def test_graph_capture():
    q, *caches = tensors("cuda", heads=(8, 2), seqs=(1, 3000), head_dim=128)
    news, lengths = [torch.randn_like(x[:, :1]) for x in caches], int32([5, 100, 2990], "cuda")

    def step():
        return flash_attn_with_kvcache(q, *caches, *news, cache_seqlens=lengths)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
        lengths += 1
    for _ in range(3):
        others, before = [x.clone() for x in caches], lengths.clone()
        graph.replay()
        assert torch.equal(out, flash_attn_with_kvcache(q, *others, *news, cache_seqlens=before))
        assert all(map(torch.equal, caches, others))
