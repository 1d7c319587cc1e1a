"""What windows compute. Every other test comes first: what is wrong without a window is wrong here,
too."""
import pytest

pytest.importorskip("numpy", reason="the oracle is in NumPy")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import cuflash  # noqa: E402, after the skips
from cuflash.shapes import DTYPES  # noqa: E402, after the skips
from tensors import gradient_of, make, run_and_check  # noqa: E402, after the skips
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402, after the skips

# One key, a side without a limit, both sides, wider than a tile, wider than any sequence here.
WINDOWS = [(0, 0), (0, -1), (-1, 0), (3, -1), (-1, 2), (4, 1), (20, 20), (2**31 - 1, 2**31 - 1)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window_size", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_small(device, dtype, window_size, causal):
    run_and_check(make(device, dtype, (4, 2), seqs=(9, 35)), causal, window_size=window_size)


# With more queries than keys the first ones see none, and where the right side has no limit, all
# queries see some key that is after them.
@pytest.mark.parametrize("window_size", WINDOWS, ids=str)
def test_more_queries_than_keys(device, window_size):
    run_and_check(make(device, seqs=(35, 9)), window_size=window_size)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window_size", [(0, 0), (64, 0), (127, 31), (-1, 100), (300, -1)], ids=str)
@pytest.mark.parametrize("seqs", [(113, 203), (203, 113), (1023, 1024)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_large(dtype, seqs, window_size, causal):
    run_and_check(make("cuda", dtype, (4, 2), seqs, 64), causal, window_size=window_size)


def results_of(qkv, **options):
    """O and the gradients."""
    o = cuflash.flash_attn_func(*qkv, deterministic=True, **options)
    return o, *torch.autograd.grad(o, qkv, gradient_of(o))


@pytest.mark.parametrize("window_size", [(0, 0), (3, 2), (-1, 1), (5, -1)], ids=str)
def test_as_sdpa_in_double_with_the_formulas_mask(device, window_size):
    left, right = window_size
    seq_q, seq_kv = 11, 19
    qkv = make(device, torch.float32, seqs=(seq_q, seq_kv))
    mask = torch.tensor([[(left == -1 or -left <= j - (i + seq_kv - seq_q)) and
                          (right == -1 or j - (i + seq_kv - seq_q) <= right)
                          for j in range(seq_kv)] for i in range(seq_q)], device=device)
    results = results_of(qkv, window_size=window_size)
    twins = [x.detach().double().transpose(1, 2).requires_grad_() for x in qkv]
    want = scaled_dot_product_attention(*twins, attn_mask=mask)
    d_o = gradient_of(results[0])
    want_grads = torch.autograd.grad(want, twins, d_o.double().transpose(1, 2))
    for got, wanted in zip(results, (want, *want_grads)):
        torch.testing.assert_close(got.double(), wanted.transpose(1, 2), rtol=0, atol=1e-5)
