"""The library's C interface (cuflash/c_api.h) through ctypes. It needs no PyTorch.

A tensor is an address and three strides in elements: Tensor(data, batch, head, row).
"""
import ctypes
import enum
import math
import numbers
import os

DTYPES = ("f32", "f16", "bf16")     # enum cuflash_dtype
PASSES = ("forward", "backward")    # enum cuflash_pass


class ErrorCode(enum.IntEnum):
    """enum cuflash_error, without its prefix."""
    INVALID_DIMENSION = 1
    DIMENSION_MISMATCH = 2
    NULL_POINTER = 3
    CUDA_ERROR = 4
    OUT_OF_MEMORY = 5
    UNSUPPORTED_HEAD_DIM = 6
    UNSUPPORTED_DTYPE = 7
    INVALID_SCALE = 8
    MISALIGNED = 9
    SIZE_OVERFLOW = 10
    UNSUPPORTED_DEVICE = 11
    UNSUPPORTED_BY_STAGE = 12
    UNKNOWN_STAGE = 13


# Errors whose cause is the machine, not the arguments.
_MACHINE_ERRORS = (ErrorCode.CUDA_ERROR, ErrorCode.OUT_OF_MEMORY, ErrorCode.UNSUPPORTED_DEVICE)


class CuflashError(RuntimeError):
    """The library refused a call, or the call failed; `code` is an ErrorCode."""

    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code = ErrorCode(code)

    def __reduce__(self):  # to be copied, and sent to another process
        return type(self), (self.code, str(self))


class CuflashValueError(CuflashError, ValueError):
    """The library refused the arguments."""


def error(code, sentence):
    """The exception for an error that the library returned."""
    is_machine_error = code in _MACHINE_ERRORS
    return (CuflashError if is_machine_error else CuflashValueError)(code, sentence)


def as_float(scale):
    """An int or a fraction as a float: if it is too large, infinity, which the library refuses."""
    if not isinstance(scale, numbers.Rational):
        return scale
    try:
        return float(scale)
    except OverflowError:
        return math.inf if scale > 0 else -math.inf


def check_int32(name, number):
    """Raises unless the integer fits in 32 bits."""
    if not -2**31 <= number < 2**31:
        raise ValueError(f"{name} is {number}; it must fit in 32 bits")


class Tensor(ctypes.Structure):
    """cuflash_tensor."""
    _fields_ = [("data", ctypes.c_void_p), ("batch_stride", ctypes.c_int64),
                ("head_stride", ctypes.c_int64), ("row_stride", ctypes.c_int64)]


class Problem(ctypes.Structure):
    """cuflash_problem; its size is set, and it has no window if none is given."""
    _fields_ = [("size", ctypes.c_uint32), ("batch", ctypes.c_int32), ("heads_q", ctypes.c_int32),
                ("heads_kv", ctypes.c_int32), ("seq_q", ctypes.c_int32),
                ("seq_kv", ctypes.c_int32), ("head_dim", ctypes.c_int32),
                ("dtype", ctypes.c_int32), ("causal", ctypes.c_int32),
                ("softmax_scale", ctypes.c_float), ("window_left", ctypes.c_int32),
                ("window_right", ctypes.c_int32), ("split_keys", ctypes.c_int32),
                ("num_splits", ctypes.c_int32), ("page_size", ctypes.c_int32),
                ("num_pages", ctypes.c_int32), ("pages_per_seq", ctypes.c_int32)]

    def __init__(self, **fields):
        fields = {"window_left": -1, "window_right": -1, **fields}
        if "softmax_scale" in fields:
            fields["softmax_scale"] = as_float(fields["softmax_scale"])
        super().__init__(ctypes.sizeof(self), **fields)
        for name, number in fields.items():  # ctypes drops the upper bits of an integer
            if name != "softmax_scale":
                check_int32(name, number)


_LAST_FIELDS = [("lse", ctypes.c_void_p), ("workspace", ctypes.c_void_p),
                ("workspace_bytes", ctypes.c_uint64)]


class ForwardArgs(ctypes.Structure):
    """cuflash_forward_args; its size is set."""
    _fields_ = [("size", ctypes.c_uint32)] + [
        (name, Tensor) for name in ("q", "k", "v", "o")] + _LAST_FIELDS + [
            (name, ctypes.c_void_p) for name in ("seqused_k", "k_begin", "kv_batch", "block_table")]

    def __init__(self, **fields):
        super().__init__(ctypes.sizeof(self), **fields)


class BackwardArgs(ctypes.Structure):
    """cuflash_backward_args; its size is set."""
    _fields_ = [("size", ctypes.c_uint32), ("deterministic", ctypes.c_int32)] + [
        (name, Tensor) for name in ("q", "k", "v", "o", "d_o", "dq", "dk", "dv")] + _LAST_FIELDS

    def __init__(self, **fields):
        super().__init__(ctypes.sizeof(self), **fields)


def _signatures():
    """(function, result, arguments) of the functions that are called here."""
    number, name, stream = ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p
    problem = ctypes.POINTER(Problem)
    return (("cuflash_forward", number, problem, ctypes.POINTER(ForwardArgs), name, stream),
            ("cuflash_backward", number, problem, ctypes.POINTER(BackwardArgs), name, stream),
            ("cuflash_check_support", number, number, problem, name),
            ("cuflash_chosen_stage", name, number, problem, name),
            ("cuflash_workspace_bytes", ctypes.c_size_t, number, problem, name),
            ("cuflash_num_stages", number), ("cuflash_stage_name", name, number),
            ("cuflash_last_error_message", name), ("cuflash_backend", name),
            ("cuflash_version", number))


class _DlInfo(ctypes.Structure):
    """Dl_info of dlfcn.h."""
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p)]


class Library:
    """A libcuflash_attn.so. If `stage` is None, the library chooses the stage."""

    def __init__(self, path):
        self.path = os.fspath(path)
        self._c = ctypes.CDLL(self.path)
        for name, result, *arguments in _signatures():
            try:
                function = getattr(self._c, name)
            except AttributeError:
                raise OSError(f"{self.path} lacks {name}: it is not a cuflash library, or it is "
                              "older than this package") from None
            function.restype, function.argtypes = result, arguments
        self.backend = self._c.cuflash_backend().decode()  # "cuda" or "simt"

    @property
    def version(self):
        """The library's version as text: "0.1.0"."""
        number = self._c.cuflash_version()
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def address(self, function):
        """The address of a function of the C interface, for other code to call it."""
        return ctypes.cast(getattr(self._c, function), ctypes.c_void_p).value

    def folder(self):
        """The folder of the loaded file, which the loader may have found anywhere."""
        info = _DlInfo()
        ctypes.CDLL(None).dladdr(ctypes.c_void_p(self.address("cuflash_version")),
                                 ctypes.byref(info))
        return os.path.dirname(os.path.abspath(os.fsdecode(info.file)))

    def stages(self):
        """The names of all stages, in teaching order."""
        return [self._c.cuflash_stage_name(n).decode() for n in range(self._c.cuflash_num_stages())]

    def refusal(self, direction, problem, stage=None):
        """The reason why the current device cannot run a pass ("forward", "backward"), or ""."""
        self._c.cuflash_check_support(PASSES.index(direction), problem, _bytes(stage))
        return self.last_message()

    def chosen_stage(self, direction, problem, stage=None):
        """The name of the stage that a call would run."""
        name = self._c.cuflash_chosen_stage(PASSES.index(direction), problem, _bytes(stage))
        if name is None:
            self._refuse(direction, problem, stage)
        return name.decode()

    def workspace_bytes(self, direction, problem, stage=None):
        """Bytes of workspace that a call needs."""
        count = self._c.cuflash_workspace_bytes(PASSES.index(direction), problem, _bytes(stage))
        if count == 0:  # Or refused.
            self._refuse(direction, problem, stage)
        return count

    def forward(self, problem, args, stage=None, stream=None):
        """Queues the forward pass on a CUDA stream's handle; None is the default stream."""
        self._check(self._c.cuflash_forward(problem, args, _bytes(stage), stream))

    def backward(self, problem, args, stage=None, stream=None):
        """Queues the backward pass."""
        self._check(self._c.cuflash_backward(problem, args, _bytes(stage), stream))

    def _refuse(self, direction, problem, stage):
        self._check(self._c.cuflash_check_support(PASSES.index(direction), problem, _bytes(stage)))

    def _check(self, code):
        if code:
            raise error(code, self.last_message())

    def last_message(self):
        """The sentence of this thread's last refusal. It may quote CUFLASH_STAGE: any bytes."""
        return self._c.cuflash_last_error_message().decode(errors="backslashreplace")


def escaped(stage):
    """A stage's name in a form that C can hold; no stage's name has the backslash of an escape."""
    return stage.replace("\0", r"\0").encode(errors="backslashreplace").decode()


def _bytes(stage):
    if stage is None:
        return None
    if not isinstance(stage, str):
        raise TypeError(f"stage is {stage!r}, of type {type(stage).__name__}; it must be a stage's "
                        "name or None")
    return escaped(stage).encode()
