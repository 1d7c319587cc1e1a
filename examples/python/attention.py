#!/usr/bin/env python3
"""Attention forward and backward from Python, compared with NumPy. To run it:

    python3 attention.py <where cuflash is installed>/lib/libcuflash_attn.so

or name the library in the environment variable CUFLASH_LIBRARY. A library for GPUs works on PyTorch's
CUDA tensors, one for the CPU simulator on NumPy's arrays.
"""
import ctypes
import os
import pathlib
import sys

try:
    import numpy as np
except ImportError:
    sys.exit("This example needs NumPy (Debian: apt-get install python3-numpy).")

# ---- cuflash/c_api.h ----------------------------------------------------------------------------

FORWARD, BACKWARD = 0, 1  # cuflash_pass
F16 = 1  # cuflash_dtype


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("batch_stride", ctypes.c_int64),
                ("head_stride", ctypes.c_int64), ("row_stride", ctypes.c_int64)]


class Problem(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32)] + [
        (name, ctypes.c_int32) for name in ("batch", "heads_q", "heads_kv", "seq_q", "seq_kv",
                                            "head_dim", "dtype", "causal")
    ] + [("softmax_scale", ctypes.c_float), ("window_left", ctypes.c_int32),
         ("window_right", ctypes.c_int32)]


WORKSPACE = [("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_uint64)]


class ForwardArgs(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32)] + [(name, Tensor) for name in "qkvo"] + [
        ("lse", ctypes.c_void_p)] + WORKSPACE


class BackwardArgs(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("deterministic", ctypes.c_int32)] + [
        (name, Tensor) for name in ("q", "k", "v", "o", "d_o", "dq", "dk", "dv")
    ] + [("lse", ctypes.c_void_p)] + WORKSPACE


if [ctypes.sizeof(t) for t in (Tensor, Problem, ForwardArgs, BackwardArgs)] != [32, 48, 160, 288]:
    sys.exit("The structs above are not laid out as c_api.h's.")


def load(path):
    """The library, its functions declared."""
    lib = ctypes.CDLL(path)
    problem, stage = ctypes.POINTER(Problem), ctypes.c_char_p
    for name, result, *arguments in (
            ("forward", ctypes.c_int, problem, ctypes.POINTER(ForwardArgs), stage, ctypes.c_void_p),
            ("backward", ctypes.c_int, problem, ctypes.POINTER(BackwardArgs), stage, ctypes.c_void_p),
            ("chosen_stage", ctypes.c_char_p, ctypes.c_int, problem, stage),
            ("last_error_message", ctypes.c_char_p), ("backend", ctypes.c_char_p)):
        function = getattr(lib, "cuflash_" + name)
        function.restype, function.argtypes = result, arguments
    return lib


def check(error):
    if error:
        sys.exit(LIB.cuflash_last_error_message().decode())


# ---- Device memory: PyTorch's, or for a library of the CPU simulator NumPy's ----------------------

if len(sys.argv) != 2 and "CUFLASH_LIBRARY" not in os.environ:
    sys.exit(__doc__)
PATH = pathlib.Path(sys.argv[1] if len(sys.argv) == 2 else os.environ["CUFLASH_LIBRARY"]).resolve()
LIB = load(str(PATH))
ON_GPU = LIB.cuflash_backend() == b"cuda"

if ON_GPU:
    try:
        import torch
        torch.cuda.current_device()
    except (ImportError, RuntimeError, AssertionError) as why:
        sys.exit(f"{PATH.name} is built for GPUs: this example then needs PyTorch with CUDA. {why}")
    STREAM = torch.cuda.current_stream().cuda_stream
else:
    STREAM = None


def to_device(array):
    return torch.from_numpy(array).cuda() if ON_GPU else array.copy()


def to_host(array):
    return (array.cpu().numpy() if ON_GPU else array).astype(np.float64)


def address(array):
    return array.data_ptr() if ON_GPU else array.ctypes.data


def tensor(array):
    """The struct of a [batch, seq, heads, head_dim] array: only its strides express the order."""
    batch, seq, heads, _ = array.stride() if ON_GPU else [s // array.itemsize for s in array.strides]
    return Tensor(address(array), batch, heads, seq)


TOLERANCE = 2**-9  # f16 rounds O, P and dS to 2**-11 of their size each.

# ---- The calls ----------------------------------------------------------------------------------


def plain(scale, q, k, v, d_o):
    """o, dq, dk and dv in double; cuflash/problem.h has the formulas."""
    group = q.shape[2] // k.shape[2]  # query heads that share a KV head
    k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    s = scale * np.einsum("bihd,bjhd->bhij", q, k)
    s[..., np.triu(np.ones(s.shape[2:], bool), 1 + s.shape[3] - s.shape[2])] = -np.inf
    p = np.exp(s)
    p /= p.sum(axis=-1, keepdims=True)
    o = np.einsum("bhij,bjhd->bihd", p, v)
    dp = np.einsum("bihd,bjhd->bhij", d_o, v)
    ds = scale * p * (dp - (p * dp).sum(axis=-1, keepdims=True))

    def shared(x):  # summed over the query heads of a KV head
        return x.reshape(*x.shape[:2], -1, group, x.shape[3]).sum(axis=3)

    return {"o": o, "dq": np.einsum("bhij,bjhd->bihd", ds, k),
            "dk": shared(np.einsum("bhij,bihd->bjhd", ds, q)),
            "dv": shared(np.einsum("bhij,bihd->bjhd", p, d_o))}


def main():
    batch, heads_q, heads_kv, seq_q, seq_kv, head_dim = 1, 4, 2, 32, 64, 64
    scale = head_dim**-0.5
    queries, keys = (batch, seq_q, heads_q, head_dim), (batch, seq_kv, heads_kv, head_dim)
    rng = np.random.default_rng(1)
    inputs = {name: rng.uniform(-1, 1, shape).astype(np.float16)
              for name, shape in (("q", queries), ("k", keys), ("v", keys), ("d_o", queries))}
    outputs = {name: np.zeros(shape, np.float16)
               for name, shape in (("o", queries), ("dq", queries), ("dk", keys), ("dv", keys))}

    arrays = {name: to_device(x) for name, x in (inputs | outputs).items()}
    lse = to_device(np.zeros((batch, heads_q, seq_q), np.float32))
    tensors = {name: tensor(x) for name, x in arrays.items()}
    problem = Problem(ctypes.sizeof(Problem), *(batch, heads_q, heads_kv, seq_q, seq_kv, head_dim),
                      dtype=F16, causal=True, softmax_scale=scale,
                      window_left=-1, window_right=-1)  # no window
    forward = ForwardArgs(ctypes.sizeof(ForwardArgs), lse=address(lse),
                          **{name: tensors[name] for name in "qkvo"})
    backward = BackwardArgs(ctypes.sizeof(BackwardArgs), deterministic=True, lse=address(lse),
                            **tensors)
    check(LIB.cuflash_forward(problem, forward, None, STREAM))
    check(LIB.cuflash_backward(problem, backward, None, STREAM))
    for name, which in (("forward", FORWARD), ("backward", BACKWARD)):
        print(name, LIB.cuflash_chosen_stage(which, problem, None).decode())

    worst = 0
    for name, expected in plain(scale, **{n: x.astype(np.float64) for n, x in inputs.items()}).items():
        error = np.abs(to_host(arrays[name]) - expected).max() / np.abs(expected).max()
        print(f"{name}: max |error| / max |{name}| {error:.1e}, tolerance {TOLERANCE:.1e}")
        worst = max(worst, error if error == error else np.inf)
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
