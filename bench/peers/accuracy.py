"""The oracle's results of attention on a sample of heads, of long ones on a sample of rows, and the
errors that are allowed.

The oracle works in double. As in the C++ harness (common/harness/reference_outputs.h), an error may
be twice (gradients: three times) that of a plain implementation in the same precision, plus the
rounding of the output and of float dot products; for f32 the limits are fixed.
"""
import math

import torch

HEADS = 4  # of each cell, from the first to the last
LONGEST = 16384  # the length up to which all rows of a head are compared
ROWS = 512  # of a longer head, at its begin, its middle and its end
NAMES = {"forward": ("O",), "backward": ("dQ", "dK", "dV")}


def sampled(shape):
    """(batch, head) of the sampled heads."""
    batch, heads = shape[:2]
    count = min(HEADS, batch * heads)
    step = (batch * heads - 1) / max(count - 1, 1)
    return [divmod(round(n * step), heads) for n in range(count)]


def sampled_rows(direction, seq):
    """The slices of rows that are compared; a gradient of K and V needs all rows of Q."""
    if seq <= LONGEST:
        return [slice(0, seq)]
    if direction == "backward":
        raise ValueError(f"backward passes are compared for at most {LONGEST} rows")
    return [slice(first, first + ROWS) for first in (0, seq // 2, seq - ROWS)]


def weights(q, k, causal, lse=None, first=0):
    """P = softmax(scale · Q Kᵀ) of one head, for rows of Q from `first` on, in the precision of
    its inputs, and LSE. If `lse` is given, P = exp(S − LSE), as a backward pass recomputes it."""
    s = (q @ k.T).mul_(q.shape[1] ** -0.5)
    if causal:
        s.masked_fill_(torch.ones_like(s, dtype=torch.bool).triu_(1 + first), -math.inf)
    if lse is None:
        lse = torch.logsumexp(s, dim=1)
    return s.sub_(lse[:, None]).exp_(), lse


def gradients(p, tensors, rounded):
    """dQ, dK and dV of one head from its Q, K, V, O and dO; `rounded` is applied to the operands
    that a kernel rounds before a product."""
    q, k, v, o, d_o = tensors
    delta = (d_o * o).sum(dim=1, keepdim=True)
    d_s = rounded((d_o @ v.T).sub_(delta).mul_(p))
    scale = q.shape[1] ** -0.5
    return (d_s @ k).mul_(scale), (d_s.T @ q).mul_(scale), rounded(p).T @ d_o


def oracle(direction, head, causal, first):
    """The expected outputs of one head (Q, K, V, dO), of whose Q and dO there are the rows from
    `first` on, and the forward pass's results: O and LSE."""
    q, k, v, d_o = (tensor.double() for tensor in head)
    p, lse = weights(q, k, causal, first=first)
    o = p @ v
    want = (o,) if direction == "forward" else gradients(p, (q, k, v, o, d_o), lambda x: x)
    return want, (o, lse)


def plain(direction, head, causal, first, given):
    """The plain implementation: float sums, P and dS rounded to the dtype, results too. Its
    backward pass starts from the oracle's O, rounded, and LSE."""
    dtype = head[0].dtype
    q, k, v, d_o = (tensor.float() for tensor in head)
    if direction == "forward":
        p, _ = weights(q, k, causal, first=first)
        results = (p.to(dtype).float() @ v,)
    else:
        o, lse = given
        p, _ = weights(q, k, causal, lse.float())
        results = gradients(p, (q, k, v, o.to(dtype).float(), d_o),
                            lambda x: x.to(dtype).float())
    return [result.to(dtype) for result in results]


def half_ulp(dtype, magnitude):
    """Half a unit in the last place of a number of this magnitude."""
    limits = torch.finfo(dtype)
    smallest = math.log2(limits.smallest_normal)
    exponent = max(math.frexp(magnitude)[1] - 1, smallest) if magnitude > 0 else smallest
    return 0.5 * 2.0**exponent * limits.eps


def dot_product_rounding(name, inputs):
    """The error that the rounding of float dot products causes in an output
    (reference_outputs.h)."""
    q, k, v, d_o = inputs
    scale, epsilon = q.shape[-1] ** -0.5, 2.0 ** -23

    def longest(tensor):
        return tensor.float().norm(dim=-1).max().item()

    def largest(tensor):
        return tensor.abs().max().item()
    s = epsilon * scale * longest(q) * longest(k)
    dp = epsilon * longest(d_o) * longest(v)
    return {"O": lambda: s * largest(v), "dV": lambda: s * largest(d_o),
            "dQ": lambda: dp * scale * largest(k), "dK": lambda: dp * scale * largest(q)}[name]()


class Expected:
    """The oracle's results on the sampled heads and rows of a cell, with a limit for each
    tensor."""

    def __init__(self, direction, inputs, causal):
        self.names = NAMES[direction]
        self.parts = [(*head, rows) for head in sampled(inputs[0].shape)
                      for rows in sampled_rows(direction, inputs[0].shape[2])]
        dtype = inputs[0].dtype
        self.want = []
        plain_error = [0.0] * len(self.names)
        for *index, rows in self.parts:
            q, k, v, d_o = (tensor[tuple(index)] for tensor in inputs)
            head = q[rows], k, v, d_o[rows]
            want, given = oracle(direction, head, causal, rows.start)
            self.want.append(want)
            if dtype != torch.float32:
                got = plain(direction, head, causal, rows.start, given)
                plain_error = [max(before, distance(x, y))
                               for before, x, y in zip(plain_error, got, want)]
        self.limits = [self._limit(n, dtype, inputs, causal, error)
                       for n, error in enumerate(plain_error)]
        if not all(map(math.isfinite, self.limits)):
            raise ArithmeticError(f"the reference gives no limits: {self.limits}")

    def _limit(self, n, dtype, inputs, causal, plain_error):
        name = self.names[n]
        largest = max(want[n].abs().max().item() for want in self.want)
        if dtype == torch.float32 and name == "O":
            return 1e-6 if inputs[0].shape[2] >= 256 and not causal else 3e-6
        dots = dot_product_rounding(name, inputs)
        if dtype == torch.float32:
            return 1e-5 * largest + dots
        return (2 if name == "O" else 3) * plain_error + half_ulp(dtype, largest) + dots

    def worst(self, outputs):
        """(name, error, limit) of the output whose error is largest relative to its limit; one that
        was not computed is None."""
        found = []
        for n, name in enumerate(self.names):
            if outputs[n] is None:
                continue
            errors = [distance(outputs[n][part], want[n])
                      for part, want in zip(self.parts, self.want)]
            found.append((name, max(errors), self.limits[n]))
        return max(found, key=lambda one: one[1] / one[2])


def distance(got, want):
    """The largest absolute difference; infinite if a result is NaN or infinite."""
    error = (got.double() - want).abs().max().item()
    return error if math.isfinite(error) else math.inf
