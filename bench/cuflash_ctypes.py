"""The library's C interface (cuflash/flash_attention.h) for Python, through ctypes.

Tensors are what has data_ptr(), stride() and shape, as PyTorch's do: [batch, heads, seq, head_dim].
"""
import ctypes
from typing import NamedTuple

DTYPES = ("f32", "f16", "bf16")       # enum cuflash_dtype
PASSES = ("forward", "backward")      # enum cuflash_pass
OUT_OF_MEMORY = 5                     # of enum cuflash_error


class Tensor(ctypes.Structure):
    """cuflash_tensor."""
    _fields_ = [("data", ctypes.c_void_p), ("batch_stride", ctypes.c_int64),
                ("head_stride", ctypes.c_int64), ("row_stride", ctypes.c_int64)]

    @classmethod
    def of(cls, tensor):
        """The same tensor for the library."""
        if tensor.stride(-1) != 1:
            raise ValueError(f"head_dim has stride {tensor.stride(-1)}; it must be 1")
        return cls(tensor.data_ptr(), *tensor.stride()[:3])


class Problem(ctypes.Structure):
    """cuflash_problem."""
    _fields_ = [("size", ctypes.c_uint32), ("batch", ctypes.c_int32), ("heads_q", ctypes.c_int32),
                ("heads_kv", ctypes.c_int32), ("seq_q", ctypes.c_int32),
                ("seq_kv", ctypes.c_int32), ("head_dim", ctypes.c_int32),
                ("dtype", ctypes.c_int32), ("causal", ctypes.c_int32),
                ("softmax_scale", ctypes.c_float)]

    @classmethod
    def square(cls, shape, dtype, causal):
        """As many keys as queries and as many KV heads as query heads; scale 1/√head_dim."""
        batch, heads, seq, head_dim = shape
        return cls(ctypes.sizeof(cls), batch, heads, heads, seq, seq, head_dim,
                   DTYPES.index(dtype), causal, head_dim ** -0.5)


class ForwardArgs(ctypes.Structure):
    """cuflash_forward_args."""
    _fields_ = [("size", ctypes.c_uint32)] + [(name, Tensor) for name in ("q", "k", "v", "o")] + [
        ("lse", ctypes.c_void_p), ("workspace", ctypes.c_void_p)]


class BackwardArgs(ctypes.Structure):
    """cuflash_backward_args."""
    _fields_ = [("size", ctypes.c_uint32), ("deterministic", ctypes.c_int32)] + [
        (name, Tensor) for name in ("q", "k", "v", "o", "d_o", "dq", "dk", "dv")] + [
            ("lse", ctypes.c_void_p), ("workspace", ctypes.c_void_p)]


class Call(NamedTuple):
    """What is called: a stage's name, the problem, and the handle of a CUDA stream."""
    stage: str
    problem: Problem
    stream: int


class CuflashError(Exception):
    """A call was refused or failed; `code` is the cuflash_error."""

    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code = code


class Library:
    """libcuflash_attn.so."""

    def __init__(self, path):
        self._c = ctypes.CDLL(str(path))
        problem, name, stream = ctypes.POINTER(Problem), ctypes.c_char_p, ctypes.c_void_p
        for function, result, *arguments in (
                ("cuflash_forward", ctypes.c_int, problem, ctypes.POINTER(ForwardArgs), name,
                 stream),
                ("cuflash_backward", ctypes.c_int, problem, ctypes.POINTER(BackwardArgs), name,
                 stream),
                ("cuflash_check_support", ctypes.c_int, ctypes.c_int, problem, name),
                ("cuflash_workspace_bytes", ctypes.c_size_t, ctypes.c_int, problem, name),
                ("cuflash_num_stages", ctypes.c_int),
                ("cuflash_stage_name", name, ctypes.c_int),
                ("cuflash_last_error_message", name)):
            getattr(self._c, function).restype = result
            getattr(self._c, function).argtypes = arguments

    def stages(self):
        """The names of all stages, in teaching order."""
        return [self._c.cuflash_stage_name(n).decode() for n in range(self._c.cuflash_num_stages())]

    def refusal(self, stage, direction, problem):
        """Why the stage cannot run this pass of the problem on the current device, or ""."""
        self._c.cuflash_check_support(PASSES.index(direction), problem, stage.encode())
        return self._sentence()

    def workspace_bytes(self, stage, direction, problem):
        """Bytes of workspace that a call needs."""
        count = self._c.cuflash_workspace_bytes(PASSES.index(direction), problem, stage.encode())
        if self._sentence():
            raise ValueError(self._sentence())
        return count

    def forward(self, call, tensors, lse, workspace):
        """A function that queues the forward pass; `tensors` are Q, K, V and O."""
        args = ForwardArgs(ctypes.sizeof(ForwardArgs), *map(Tensor.of, tensors), lse.data_ptr(),
                           workspace.data_ptr() or None)
        return self._queue(self._c.cuflash_forward, call, args, (tensors, lse, workspace))

    def backward(self, call, tensors, lse, workspace):
        """A function that queues the backward pass; `tensors` are Q, K, V, O, dO, dQ, dK and dV."""
        args = BackwardArgs(ctypes.sizeof(BackwardArgs), True, *map(Tensor.of, tensors),
                            lse.data_ptr(), workspace.data_ptr() or None)
        return self._queue(self._c.cuflash_backward, call, args, (tensors, lse, workspace))

    def _queue(self, function, call, args, owners):
        stage = call.stage.encode()

        def queue():
            code = function(call.problem, args, stage, call.stream)
            if code:
                raise CuflashError(code, self._sentence())
        queue.owners = owners  # `args` has addresses only; the memory must live as long as they do
        return queue

    def _sentence(self):
        return self._c.cuflash_last_error_message().decode()
