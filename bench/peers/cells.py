"""Runs one cell of the matrix: every implementation checked, then timed in interleaved rounds."""
import contextlib
import functools
import random
from typing import Callable, NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import accuracy
import flash_attention
from cuflash import capi, shapes  # peers.py sets its path
from tables import FLASH_ATTENTION, PEERS, WRONG, stage_of

torch.set_float32_matmul_precision("highest")  # f32 products in f32, not in TF32

DEVICE = "cuda"
DTYPES = {name: dtype for dtype, name in shapes.DTYPES.items()}
BACKENDS = {"fa2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
ONLY_16_BITS = ("fa2", *FLASH_ATTENTION, "cudnn")
LONGEST_OF_QUADRATIC = 4096  # for implementations that keep S

SLOW_MS = 300.0     # slower calls are timed once
WARM_UP_MS = 20.0   # before each measurement: the clocks are up and L2 holds what fits
MEASURE_MS = 30.0
MIN_CALLS, MAX_CALLS = 3, 200
HEAD_START = 100_000  # cycles per call, about 50 µs: longer than Python takes to queue one
TIMING = (f"CUDA events around {MIN_CALLS} to {MAX_CALLS} calls queued ahead, about "
          f"{MEASURE_MS:.0f} ms; the median of rounds in which each implementation is timed once "
          f"after a warm-up, in another order each round; N(0,1) inputs that lie as [B, S, H, D], "
          f"L2 warm; a call over {SLOW_MS / 1000} s is timed once; through JAX by the host's clock")


class NotRun(Exception):
    """Why an implementation does not run a cell."""


def timed(call, calls):
    """Milliseconds of a call, as the mean of several. The device sleeps while they are queued, so
    that it does not wait for Python between two calls."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(HEAD_START * calls)  # pylint: disable=protected-access
    start.record()
    for _ in range(calls):
        call()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / calls


class Prepared(NamedTuple):
    """An implementation with a cell's tensors."""
    call: Callable           # queues one call, returns O or (dQ, dK, dV)
    context: Callable        # makes a context manager, within which it is called
    timed: Callable = timed  # the milliseconds of a call, as the mean of several


def make_inputs(cell):
    """Q, K, V and dO, N(0,1), stored as [B, S, H, D], as a model's projections leave them. For any
    other layout PyTorch copies O and dO before FlashAttention-2's backward pass."""
    generator = torch.Generator(DEVICE).manual_seed(1)
    batch, heads, seq, head_dim = cell.shape
    shape = batch, seq, heads, head_dim
    return [torch.randn(shape, generator=generator, device=DEVICE).to(DTYPES[cell.dtype])
            .transpose(1, 2) for _ in range(4)]


# ---- Implementations ----------------------------------------------------------------------------

def prepare_peer(name, cell, inputs):
    """Prepares FlashAttention-3 or 4, or one of SDPA's backends, as PyTorch calls it by default:
    FlashAttention-2's backward pass adds to dQ in an unspecified order."""
    if name in ONLY_16_BITS and cell.dtype == "f32":
        raise NotRun(f"{name} takes f16 and bf16")
    if name == "math" and cell.seq > LONGEST_OF_QUADRATIC:
        raise NotRun(f"math keeps S: it stops at {LONGEST_OF_QUADRATIC}")
    if name in FLASH_ATTENTION:
        return Prepared(*flash_attention.prepare(name, cell, inputs))

    def context():
        return sdpa_kernel(BACKENDS[name])

    q, k, v, d_o = inputs
    if cell.direction == "forward":
        return Prepared(lambda: (scaled_dot_product_attention(q, k, v, is_causal=cell.causal),),
                        context)
    # The graph is built once, outside the time. autograd.grad then runs the backend's backward
    # operator: no forward pass, and no addition into .grad, which backward() would do. It allocates
    # dQ, dK and dV, which costs the device no time.
    leaves = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
    with context():
        o = scaled_dot_product_attention(*leaves, is_causal=cell.causal)
    return Prepared(lambda: torch.autograd.grad(o, leaves, d_o, retain_graph=True),
                    contextlib.nullcontext)


def problem_of(cell, seq):
    """The cell's problem with another length."""
    batch, heads, _, head_dim = cell.shape
    return capi.Problem(batch=batch, heads_q=heads, heads_kv=heads, seq_q=seq, seq_kv=seq,
                        head_dim=head_dim, dtype=capi.DTYPES.index(cell.dtype),
                        causal=cell.causal, softmax_scale=head_dim ** -0.5)


def keeps_scores(library, stage, cell):
    """True if twice the length needs four times the workspace."""
    once, twice = (library.workspace_bytes(cell.direction, problem_of(cell, seq), stage)
                   for seq in (cell.seq, 2 * cell.seq))
    return twice > 3 * once > 0


def prepare_stage(library, name, cell, inputs):
    """Prepares a stage of the library. Its backward pass starts from its own O and LSE, or, if it has no
    forward pass, from those of the stage that the library chooses."""
    stage, deterministic = stage_of(name)
    problem = problem_of(cell, cell.seq)
    refusal = library.refusal(cell.direction, problem, stage)
    if refusal:
        raise NotRun(refusal)
    if cell.seq > LONGEST_OF_QUADRATIC and keeps_scores(library, stage, cell):
        raise NotRun(f"{stage} keeps S: it stops at {LONGEST_OF_QUADRATIC}")
    q, k, v, d_o = inputs
    forward_tensors = {"q": q, "k": k, "v": v, "o": unwritten(d_o),
                       "lse": torch.full(d_o.shape[:3], torch.nan, device=DEVICE)}
    by = None if library.refusal("forward", problem, stage) else stage
    forward = queued(library, by, "forward", problem, capi.ForwardArgs, forward_tensors)
    if cell.direction == "forward":
        return Prepared(calling(forward, forward_tensors["o"]), contextlib.nullcontext)
    forward()
    grads = {name: unwritten(like) for name, like in zip(accuracy.NAMES["backward"], (q, k, v))}
    backward = queued(library, stage, "backward", problem,
                      functools.partial(capi.BackwardArgs, deterministic=deterministic),
                      forward_tensors | {"d_o": d_o} |
                      {name.lower(): tensor for name, tensor in grads.items()})
    return Prepared(calling(backward, *grads.values()), contextlib.nullcontext)


def queued(library, stage, direction, problem, make_args, tensors):
    """Returns a function that queues a pass on the current stream."""
    count = library.workspace_bytes(direction, problem, stage)
    workspace = torch.empty(count, dtype=torch.uint8, device=DEVICE)
    fields = {name: tensor.data_ptr() if name == "lse" else
              capi.Tensor(tensor.data_ptr(), *tensor.stride()[:3])
              for name, tensor in tensors.items()}
    fields |= {"workspace": workspace.data_ptr() or None, "workspace_bytes": count}
    args, function = make_args(**fields), getattr(library, direction)
    stream = torch.cuda.current_stream().cuda_stream

    def queue():
        function(problem, args, stage, stream)
    queue.owners = tensors, workspace  # `args` has addresses only
    return queue


def unwritten(tensor):
    """An output like this tensor, strides included, that no kernel has written yet."""
    return torch.full_like(tensor, torch.nan)


def calling(queue, *outputs):
    """Returns a function that calls `queue` and returns the outputs."""
    def call():
        queue()
        return outputs
    return call


def prepare(library, name, cell, inputs):
    """Prepares the implementation with that name."""
    if name in PEERS:
        return prepare_peer(name, cell, inputs)
    return prepare_stage(library, name, cell, inputs)


# ---- Time ---------------------------------------------------------------------------------------

def calls_for(ms, budget, least):
    """The number of calls of `ms` each that fills the budget."""
    return max(least, min(MAX_CALLS, round(budget / ms)))


def measure(prepared, ms):
    """One round's time of an implementation whose call takes about `ms`."""
    with prepared.context():
        for _ in range(calls_for(ms, WARM_UP_MS, 1)):
            prepared.call()
        return prepared.timed(prepared.call, calls_for(ms, MEASURE_MS, MIN_CALLS))


def ceilings():
    """The speed of plain matrix products and copies on this device."""
    def product_tflops(dtype):
        a, b = (torch.randn(8192, 8192, device=DEVICE).to(dtype) for _ in range(2))
        return 2 * 8192 ** 3 / best(lambda: a @ b) * 1e-9

    def best(call):
        prepared = Prepared(call, contextlib.nullcontext)
        return min(measure(prepared, 2.0) for _ in range(3))
    source = torch.randn(2 ** 28, device=DEVICE)
    target = torch.empty_like(source)
    copied = 2 * source.numel() * source.element_size()  # read and written
    return {"matmul_f16_tflops": product_tflops(torch.float16),
            "matmul_f32_tflops": product_tflops(torch.float32),
            "copy_tbs": copied / best(lambda: target.copy_(source)) * 1e-9}


# ---- A cell -------------------------------------------------------------------------------------

class Candidate:
    """One implementation in one cell."""

    def __init__(self, name, prepares):
        self.name, self.prepares = name, prepares
        self.prepared = None  # None also after the last measurement
        self.times = []  # milliseconds of each round
        self.reason = ""  # why there are none

    def check(self, cell, inputs, expected):
        """Makes one call and compares its outputs with the oracle's; times a slow call at once."""
        try:
            self.prepared = self.prepares(cell, inputs)
            with self.prepared.context():
                name, error, limit = expected.worst(self.prepared.call())
                if not error <= limit:
                    raise NotRun(f"{WRONG}{name} is off by {error:.3g}, the limit is {limit:.3g}")
                self.times = [self.prepared.timed(self.prepared.call, 1)]
            if self.times[0] > SLOW_MS:
                self.prepared = None
        except NotRun as reason:
            self._give_up(str(reason))
        except RuntimeError as error:
            self._give_up(known_reason(error))

    def _give_up(self, reason):
        self.prepared = None
        self.reason = reason


def known_reason(error):
    """The reason why an implementation cannot run a cell; raises any other error again."""
    code = getattr(error, "code", None)
    if isinstance(error, torch.OutOfMemoryError) or code == capi.ErrorCode.OUT_OF_MEMORY:
        torch.cuda.empty_cache()
        return "out of device memory"
    if "No available kernel" in str(error) or "cuDNN" in str(error):
        return str(error).splitlines()[0]
    raise error


def run_cell(cell, implementations, rounds):
    """The candidates of a cell. `implementations` maps a name to a function that prepares it for (cell, inputs)."""
    inputs = make_inputs(cell)
    expected = accuracy.Expected(cell.direction, inputs, cell.causal)
    candidates = [Candidate(name, prepares) for name, prepares in implementations.items()]
    for candidate in candidates:
        candidate.check(cell, inputs, expected)
    active = [(candidate, candidate.times.pop()) for candidate in candidates if candidate.prepared]
    # The previous kernel heats the chip and lowers its clock, so the order changes.
    chance = random.Random(str(cell))
    for _ in range(rounds):
        chance.shuffle(active)
        for candidate, ms in active:
            candidate.times.append(measure(candidate.prepared, ms))
    for candidate in candidates:
        candidate.prepared = None
    torch.cuda.empty_cache()
    return candidates
