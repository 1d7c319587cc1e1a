"""What attention must compute, and how far from it a result may be, in NumPy.

As in the C++ harness (common/harness/reference_outputs.h): an error may be twice (gradients: three times)
that of a plain implementation in the same precision, plus the rounding of the output and of float
dot products; for f32 and N(0, 1) inputs the limits are fixed. All arrays are [batch, heads, seq,
head_dim], LSE is [batch, heads, seq].
"""
import math

import numpy as np

EPSILON = 2.0 ** -23
SIGNIFICAND_BITS = {"f32": 23, "f16": 10, "bf16": 7}  # after the leading one


def rounded(x, dtype):
    """float32 numbers, rounded to the dtype."""
    x = x.astype(np.float32)
    if dtype == "f16":
        return x.astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        bits = x.view(np.uint32)
        bits = bits + 0x7FFF + ((bits >> 16) & 1)  # to nearest, ties to even
        return (bits & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return x


def transposed(x):
    """The matrices, transposed."""
    return x.swapaxes(-1, -2)


def repeated(x, group):
    """KV heads, one for each query head."""
    return np.repeat(x, group, axis=1)


def summed(x, group):
    """Gradients of the query heads' own K or V, summed to the KV heads'."""
    batch, heads, seq, head_dim = x.shape
    return x.reshape(batch, heads // group, group, seq, head_dim).sum(axis=2)


def seen(queries, keys, causal, window_size):
    """Which query sees which key, [queries, keys]."""
    left, right = window_size
    if causal:
        right = 0
    distance = np.arange(keys) - (np.arange(queries)[:, None] + keys - queries)
    return ((left == -1) | (-left <= distance)) & ((right == -1) | (distance <= right))


def weights(q, k, scale, mask, lse=None):
    """P = softmax(scale · Q Kᵀ) in the precision of the inputs, and LSE; with `lse` given,
    P = exp(S − LSE) as a backward pass recomputes it. `mask` is (causal, window_size)."""
    s = (q @ transposed(k)) * q.dtype.type(scale)
    s = np.where(seen(*s.shape[-2:], *mask), s, -np.inf)
    if lse is None:
        top = s.max(axis=-1)
        shift = np.where(np.isfinite(top), top, 0)
        with np.errstate(divide="ignore"):
            lse = np.log(np.exp(s - shift[..., None]).sum(axis=-1)) + shift
    none_seen = np.isneginf(lse)
    return np.exp(s - np.where(none_seen, np.inf, lse)[..., None]), lse


def gradients(p, tensors, scale, dtype):
    """dQ, dK and dV; what a kernel hands to a product is rounded to `dtype`, if given."""
    q, k, v, o, d_o = tensors
    group = q.shape[1] // k.shape[1]

    def handed(x):
        return rounded(x, dtype) if dtype else x
    delta = (d_o * o).sum(axis=-1, keepdims=True)
    d_s = handed(p * (d_o @ transposed(repeated(v, group)) - delta))
    scale = q.dtype.type(scale)
    return ((d_s @ repeated(k, group)) * scale, summed(transposed(d_s) @ q, group) * scale,
            summed(transposed(handed(p)) @ d_o, group))


def oracle(q, k, v, d_o, scale, mask):
    """O, LSE, dQ, dK and dV in double."""
    q, k, v, d_o = (x.astype(np.float64) for x in (q, k, v, d_o))
    group = q.shape[1] // k.shape[1]
    p, lse = weights(q, repeated(k, group), scale, mask)
    o = p @ repeated(v, group)
    return dict(zip(("O", "LSE", "dQ", "dK", "dV"),
                    (o, lse, *gradients(p, (q, k, v, o, d_o), scale, None))))


def plain(q, k, v, d_o, scale, mask, dtype, want):
    """The plain implementation: float sums, P, dS and results rounded to the dtype. Its backward
    pass starts from the oracle's O, rounded, and LSE."""
    group = q.shape[1] // k.shape[1]
    p, lse = weights(q, repeated(k, group), scale, mask)
    o = rounded(p, dtype) @ repeated(v, group)
    p, _ = weights(q, repeated(k, group), scale, mask, want["LSE"].astype(np.float32))
    grads = gradients(p, (q, k, v, rounded(want["O"], dtype), d_o), scale, dtype)
    results = {"O": o, **dict(zip(("dQ", "dK", "dV"), grads))}
    return {"LSE": lse, **{name: rounded(x, dtype) for name, x in results.items()}}


def half_ulp(dtype, magnitude):
    """Half a unit in the last place of a number of this magnitude."""
    smallest = -14 if dtype == "f16" else -126
    exponent = max(math.frexp(magnitude)[1] - 1, smallest) if magnitude > 0 else smallest
    return 0.5 * 2.0 ** (exponent - SIGNIFICAND_BITS[dtype])


def dot_product_rounding(q, k, v, d_o, scale):
    """How far the rounding of float dot products carries into each output."""
    def longest(x):
        return float(np.linalg.norm(x, axis=-1).max())

    def largest(x):
        return float(np.abs(x).max())
    s = EPSILON * scale * longest(q) * longest(k)
    dp = EPSILON * longest(d_o) * longest(v)
    column = max(1.0, q.shape[1] / k.shape[1] * q.shape[2] / k.shape[2])
    return {"LSE": s, "O": s * largest(v), "dV": s * largest(d_o) * column,
            "dQ": dp * scale * largest(k), "dK": dp * scale * largest(q) * column}


def largest_error(got, want):
    """The largest absolute difference where the wanted number is finite; NaN stays."""
    finite = np.isfinite(want)
    return float(np.abs(got[finite] - want[finite]).max()) if finite.any() else 0.0


class Expected:
    """The oracle's results with a limit for each. The inputs are float32 arrays that hold N(0, 1)
    numbers of the dtype."""

    def __init__(self, q, k, v, d_o, dtype, scale=None, causal=False, window_size=(-1, -1)):
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        mask = causal, window_size
        self.want = oracle(q, k, v, d_o, scale, mask)
        yardstick = plain(q, k, v, d_o, scale, mask, dtype, self.want)
        dots = dot_product_rounding(q, k, v, d_o, scale)
        fixed_o = 1e-6 if k.shape[2] >= 256 and seen(q.shape[2], k.shape[2], *mask).all() else 3e-6
        self.limits = {}
        for name, want in self.want.items():
            finite = np.abs(want[np.isfinite(want)])
            largest = float(finite.max()) if finite.size else 0.0
            if dtype == "f32" and name != "LSE":
                self.limits[name] = fixed_o if name == "O" else 1e-5 * largest + dots[name]
                continue
            times = 3 if name in ("dQ", "dK", "dV") else 2
            self.limits[name] = (times * largest_error(yardstick[name], want) + dots[name]
                                 + half_ulp("f32" if name == "LSE" else dtype, largest))
        assert all(map(math.isfinite, self.limits.values())), self.limits

    def check(self, **results):
        """Fails where a result, O=..., is further from the oracle's than its limit."""
        for name, got in results.items():
            got, want = got.astype(np.float64), self.want[name]
            assert got.shape == want.shape, name
            infinite = ~np.isfinite(want)
            assert np.array_equal(got[infinite], want[infinite]), f"{name}: where it is infinite"
            error, limit = largest_error(got, want), self.limits[name]
            assert error <= limit, f"{name} is off by {error:.3g}; the limit is {limit:.3g}"
