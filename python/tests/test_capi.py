"""The C interface through ctypes, without PyTorch: NumPy arrays in the CPU simulator's library."""
import copy
import ctypes
import fractions
import math
import pathlib
import pickle
import re

import pytest

np = pytest.importorskip("numpy", reason="these tests take NumPy's arrays")

from cuflash import capi, library  # noqa: E402, after the skip
from expected import Expected, rounded  # noqa: E402, after the skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "common/include/cuflash/c_api.h"
LIBRARY = ROOT / "docs/library.md"


@pytest.fixture(scope="module")
def lib():
    try:
        return library.on("cpu")
    except RuntimeError as error:
        pytest.skip(str(error))


def stored(x, dtype):
    """float32 numbers in the dtype's own bytes."""
    if dtype == "bf16":
        return (x.view(np.uint32) >> 16).astype(np.uint16)
    return x.astype({"f32": np.float32, "f16": np.float16}[dtype])


def loaded(x, dtype):
    """The numbers that stored() left, in float32."""
    if dtype == "bf16":
        return (x.astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.float32)


def view(x):
    """The array for the library."""
    steps = [step // x.itemsize for step in x.strides]
    assert steps[3] == 1
    return capi.Tensor(x.ctypes.data, *steps[:3])


def swapped(x):
    """The same tensor, kept as [batch, seq, heads, head_dim]."""
    return np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)


class Case:
    """Inputs and outputs of one problem."""

    def __init__(self, dtype="f32", heads=(2, 2), seqs=(5, 7), head_dim=32, causal=False,
                 window_size=(-1, -1), layout=np.ascontiguousarray):
        random = np.random.default_rng(1)
        q_shape = 2, heads[0], seqs[0], head_dim
        kv_shape = 2, heads[1], seqs[1], head_dim
        self.dtype = dtype
        self.problem = capi.Problem(batch=2, heads_q=heads[0], heads_kv=heads[1], seq_q=seqs[0],
                                    seq_kv=seqs[1], head_dim=head_dim, causal=causal,
                                    dtype=capi.DTYPES.index(dtype), softmax_scale=head_dim ** -0.5,
                                    window_left=window_size[0], window_right=window_size[1])
        numbers = [rounded(random.standard_normal(shape), dtype)
                   for shape in (q_shape, kv_shape, kv_shape, q_shape)]
        self.expected = Expected(*numbers, dtype, causal=causal, window_size=window_size)
        names = "q", "k", "v", "d_o", "o", "dq", "dk", "dv"
        outputs = [np.full(shape, np.nan, np.float32)
                   for shape in (q_shape, q_shape, kv_shape, kv_shape)]
        self.arrays = {name: layout(stored(x, dtype))
                       for name, x in zip(names, numbers + outputs)}
        self.lse = np.full(q_shape[:3], np.nan, np.float32)

    def views(self, *names):
        return {name: view(self.arrays[name]) for name in names}

    def number(self, name):
        return loaded(self.arrays[name], self.dtype)

    def forward(self, lib, stage=None, **changed):
        fields = {**self.views("q", "k", "v", "o"), "lse": self.lse.ctypes.data, **changed}
        lib.forward(self.problem, capi.ForwardArgs(**fields), stage)

    def backward(self, lib, stage=None, **changed):
        fields = {**self.views("q", "k", "v", "o", "d_o", "dq", "dk", "dv"),
                  "lse": self.lse.ctypes.data, **changed}
        lib.backward(self.problem, capi.BackwardArgs(deterministic=1, **fields), stage)


@pytest.mark.parametrize("layout", (np.ascontiguousarray, swapped))
@pytest.mark.parametrize("dtype", capi.DTYPES)
def test_both_passes(lib, dtype, layout):
    case = Case(dtype, heads=(4, 2), causal=True, window_size=(2, 1), layout=layout)
    case.forward(lib)
    case.expected.check(O=case.number("o"), LSE=case.lse)
    case.backward(lib)
    case.expected.check(dQ=case.number("dq"), dK=case.number("dk"), dV=case.number("dv"))


def test_the_call_in_the_page_of_the_library(lib):
    text = LIBRARY.read_text(encoding="utf-8")
    call, = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    there = "build/simt/libcuflash_attn.so"
    assert there in call and len(call.splitlines()) == 5
    names = {}
    exec(call.replace(there, lib.path), names)  # pylint: disable=exec-used
    assert names["error"] == 0
    q, k, v, o = (names[name].astype(np.float32) for name in "QKVO")
    Expected(q, k, v, q, "f16", causal=True).check(O=o)


def test_a_workspace_of_the_callers(lib):
    case = Case()
    count = lib.workspace_bytes("forward", case.problem, "01_naive")
    assert count > 0
    memory = np.zeros(count + 512, np.uint8)
    address = -(-memory.ctypes.data // 256) * 256
    with pytest.raises(capi.CuflashError, match=f"needs a workspace of {count} bytes"):
        case.forward(lib, "01_naive", workspace=address, workspace_bytes=count - 1)
    case.forward(lib, "01_naive", workspace=address, workspace_bytes=count)
    case.expected.check(O=case.number("o"))
    assert memory.any()


def test_a_refusal_is_an_exception_with_the_librarys_sentence(lib):
    case = Case()
    case.problem.head_dim = 24
    sentence = "head_dim is 24; it must be 32, 64, 96, 128 or 256"
    with pytest.raises(capi.CuflashValueError, match=sentence) as caught:
        case.forward(lib)
    assert caught.value.code is capi.ErrorCode.UNSUPPORTED_HEAD_DIM
    assert isinstance(caught.value, ValueError)
    with pytest.raises(capi.CuflashValueError, match=sentence):
        lib.workspace_bytes("forward", case.problem)
    assert sentence == lib.refusal("forward", case.problem)
    assert np.isnan(case.number("o")).all()


def test_questions(lib):
    problem = Case("f16").problem
    assert lib.refusal("forward", problem, "05_wmma") == ""
    assert lib.refusal("backward", problem, "05_wmma") == "05_wmma has no backward pass"
    assert lib.chosen_stage("backward", problem, "04") == "04_register_tiles"
    with pytest.raises(ValueError, match="05_wmma has no backward pass"):
        lib.chosen_stage("backward", problem, "05_wmma")
    with pytest.raises(ValueError, match="no such stage") as caught:
        lib.workspace_bytes("forward", problem, "no such stage")
    assert caught.value.code is capi.ErrorCode.UNKNOWN_STAGE


@pytest.mark.parametrize("stage", ["", "04\0", "\0", "04\0x", "\ud800"], ids=ascii)
def test_a_stage_that_is_none(lib, stage):
    problem = Case().problem
    with pytest.raises(capi.CuflashValueError, match="there is no such stage") as caught:
        lib.chosen_stage("forward", problem, stage)
    assert caught.value.code is capi.ErrorCode.UNKNOWN_STAGE
    assert lib.refusal("forward", problem, stage) == str(caught.value)


@pytest.mark.parametrize("stage", [4, b"04", True, object], ids=repr)
def test_a_stage_that_is_no_text(lib, stage):
    case = Case()
    for call in (case.forward, case.backward):
        with pytest.raises(TypeError, match="^stage is .*; it must be a stage's name or None$"):
            call(lib, stage)


@pytest.mark.parametrize("scale, shown", [
    (1e39, "inf"), (10**400, "inf"), (-10**400, "-inf"), (fractions.Fraction(-10**400, 3), "-inf"),
    (math.nan, "nan"), (0, "0")], ids=lambda value: str(value)[:9])
def test_a_scale_that_is_refused(lib, scale, shown):
    refusal = lib.refusal("forward", capi.Problem(batch=1, heads_q=1, heads_kv=1, seq_q=1, seq_kv=1,
                                                  head_dim=32, softmax_scale=scale))
    assert refusal == f"softmax_scale is {shown}; it must be finite and positive"


def test_the_library_itself(lib):
    assert lib.backend == "simt"
    assert lib.stages()[0] == "01_naive"
    assert len(lib.stages()) == len(set(lib.stages()))


def enum_of_the_header(name):
    """Its enumerators, without their prefix, and their values."""
    body = re.search(rf"CUFLASH_ENUM\({name}\){{(.*?)}};", HEADER.read_text(encoding="utf-8"), re.DOTALL)[1]
    return {word: int(value) for word, value in re.findall(r"CUFLASH_(\w+) = (\d+)", body)}


def test_codes_are_those_of_the_header():
    codes = {code.name: code.value for code in capi.ErrorCode}
    assert {"SUCCESS": 0, **codes} == enum_of_the_header("cuflash_error")
    for enum, words in (("cuflash_dtype", capi.DTYPES), ("cuflash_pass", capi.PASSES)):
        assert {word.upper(): n for n, word in enumerate(words)} == enum_of_the_header(enum)


C_TYPES = {"uint32_t": ctypes.c_uint32, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64,
           "uint64_t": ctypes.c_uint64, "float": ctypes.c_float, "cuflash_dtype": ctypes.c_int32,
           "cuflash_tensor": capi.Tensor}


@pytest.mark.parametrize("name, struct", [
    ("cuflash_tensor", capi.Tensor), ("cuflash_problem", capi.Problem),
    ("cuflash_forward_args", capi.ForwardArgs), ("cuflash_backward_args", capi.BackwardArgs)])
def test_structs_are_those_of_the_header(name, struct):
    text = HEADER.read_text(encoding="utf-8")
    body = re.search(rf"typedef struct {name} {{(.*?)}} {name};", text, re.DOTALL)[1]
    fields = re.findall(r"^ +(?:const )?(\w+\*?) (\w+);", body, re.MULTILINE)
    assert struct._fields_ == [(field, ctypes.c_void_p if kind.endswith("*") else C_TYPES[kind])
                               for kind, field in fields]


def test_a_problem_has_no_window_unless_one_is_given():
    assert [(p.window_left, p.window_right, p.size) for p in
            (capi.Problem(batch=1), capi.Problem(window_left=3))] == [(-1, -1, 68), (3, -1, 68)]


def test_a_window_that_is_refused(lib):
    case = Case()
    case.problem.window_right = -2
    with pytest.raises(capi.CuflashValueError, match="window_right is -2; it must be at least 0"):
        case.forward(lib)


@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize("kind", [capi.CuflashError, capi.CuflashValueError])
def test_an_error_can_be_copied(kind, copied):
    error = copied(kind(capi.ErrorCode.CUDA_ERROR, "a sentence"))
    assert (type(error), str(error), error.code) == (kind, "a sentence", capi.ErrorCode.CUDA_ERROR)
