"""How the operators get along with the rest of PyTorch."""
import pathlib
import shutil
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy", reason="the oracle is in NumPy")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import cuflash  # noqa: E402, after the skips
from cuflash import operators, ops  # noqa: E402, after the skips
from tensors import check, gradient_of, make  # noqa: E402, after the skips
from torch.autograd import forward_ad  # noqa: E402, after the skips
from torch.library import opcheck  # noqa: E402, after the skips
from torch.utils.checkpoint import checkpoint  # noqa: E402, after the skips


def results_of(function, qkv):
    """O, and the gradients for a dO that is N(0, 1)."""
    o = function(*qkv)
    return o, *torch.autograd.grad(o, qkv, gradient_of(o))


def assert_equal(got, want):
    """To the bit."""
    for x, y in zip(got, want):
        assert x.dtype == y.dtype and torch.equal(x, y)


def causal(q, k, v):
    """The function that most tests here wrap; the same bits in every run."""
    return cuflash.flash_attn_func(q, k, v, causal=True, deterministic=True)


# ---- torch.library and torch.compile ------------------------------------------------------------

FORWARD, BACKWARD = torch.ops.cuflash.forward.default, torch.ops.cuflash.backward.default


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_opcheck_forward(device, dtype):
    q, k, v = make(device, dtype, heads=(4, 2))
    for stage in (None, "04"):
        opcheck(FORWARD, (q, k, v, 0.2, True, -1, -1, True, stage))
    strided = q.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
    opcheck(FORWARD, (strided, k, v, 0.2, False, 3, 1, True, None))


@pytest.mark.parametrize("wanted", [[True, True, True], [False, True, False]], ids=str)
def test_opcheck_backward(device, wanted):
    q, k, v = (x.detach() for x in make(device, heads=(4, 2)))
    options = 0.2, False, 3, 1, True, None
    o, lse = ops.forward(q, k, v, *options)
    opcheck(BACKWARD, (gradient_of(o), q, k, v, o, lse, *options, wanted))


def compiled_without_cpp(function, dynamic=None):
    """torch.compile's graphs of the function and its gradients, without generating C++."""
    return torch.compile(function, fullgraph=True, dynamic=dynamic, backend="aot_eager")


@pytest.mark.parametrize("backend, dynamic", [("inductor", False), ("aot_eager", True)])
def test_compile(device, backend, dynamic):
    def block(q, k, v):
        return torch.sin(causal(q * 2, k, v)) + q
    compiled = torch.compile(block, fullgraph=True, dynamic=dynamic, backend=backend)
    for seqs in ((5, 7), (6, 9)):
        qkv = make(device, seqs=seqs)
        for got, want in zip(results_of(compiled, qkv), results_of(block, qkv)):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_with_a_scale(device, dynamic):
    compiled = compiled_without_cpp(cuflash.flash_attn_func, dynamic)
    qkv = [x.detach() for x in make(device)]
    for scale in (0.2, 0.3, None, 1):
        assert_equal([compiled(*qkv, softmax_scale=scale)],
                     [cuflash.flash_attn_func(*qkv, softmax_scale=scale)])


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_with_a_window(device, dynamic):
    def windowed(q, k, v, left):
        return cuflash.flash_attn_func(q, k, v, window_size=(left, 2), deterministic=True)
    compiled = compiled_without_cpp(windowed, dynamic)
    qkv = make(device)
    for left in (3, 4, -1):
        assert_equal(results_of(lambda *qkv, left=left: compiled(*qkv, left), qkv),
                     results_of(lambda *qkv, left=left: windowed(*qkv, left), qkv))


def test_trace_with_a_scale_from_symbolic_shapes():
    def scaled(q):
        return cuflash.flash_attn_func(q, q, q, softmax_scale=q.shape[3] ** -0.5)
    q = make("meta")[0].detach()
    graph = torch.fx.experimental.proxy_tensor.make_fx(scaled, tracing_mode="symbolic")(q)
    assert graph(q).shape == q.shape


def test_compile_of_the_module(device):
    attn = compiled_without_cpp(cuflash.FlashAttention(head_dim=32, causal=True))
    qkv = [x.detach().transpose(1, 2) for x in make(device)]
    assert torch.equal(attn(*qkv), cuflash.FlashAttention(32, causal=True)(*qkv))


def test_fake_results_with_any_head_dim():
    for head_dim in 32, 64, 96, 128, 256:
        q, k, v = make("meta", torch.float16, head_dim=head_dim)
        out, lse = cuflash.flash_attn_func(q, k, v, return_lse=True)
        assert (out.shape, lse.shape) == (q.shape, (2, 2, 5))
        grads = torch.autograd.grad(out.sum(), (q, k, v))
        assert [x.shape for x in grads] == [x.shape for x in (q, k, v)]


def test_compile_when_cuflash_was_not_used_before(device):
    code = f"""
import torch, cuflash
q, k, v = (torch.randn(1, 3, 2, 32, device={device!r}) for _ in range(3))
f = torch.compile(lambda q, k, v: cuflash.flash_attn_func(q, k, v), fullgraph=True,
                  backend="aot_eager")
print(torch.equal(f(q, k, v), cuflash.flash_attn_func(q, k, v)))
"""
    path = f"import sys; sys.path.insert(0, {str(cuflash.__path__[0])!r} + '/..')\n"
    done = subprocess.run([sys.executable, "-c", path + code], capture_output=True, text=True,
                          check=False)
    assert done.stdout == "True\n", done.stderr


# ---- Autocast, checkpoint, gradients ------------------------------------------------------------

@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast(device, dtype):
    qkv = make(device, torch.float32)
    with torch.autocast(device, dtype):
        o = causal(*qkv)
    assert o.dtype == dtype
    d_o = gradient_of(o)
    grads = torch.autograd.grad(o, qkv, d_o)
    assert [grad.dtype for grad in grads] == [torch.float32] * 3
    check([x.to(dtype) for x in qkv], o, d_o, grads, causal=True)


def test_autocast_takes_mixed_dtypes_as_sdpa_does(device):
    q, k, v = make(device)
    with torch.autocast(device, torch.float16):
        assert causal(q.half(), k, v.bfloat16()).dtype == torch.float16
        with pytest.raises(TypeError, match="q is float64"):
            causal(q.double(), k, v)


def test_autocast_in_compile(device):
    qkv = [x.detach() for x in make(device)]
    compiled = compiled_without_cpp(causal)
    with torch.autocast(device, torch.bfloat16):
        assert_equal([compiled(*qkv)], [causal(*qkv)])


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_activation_checkpointing(device, use_reentrant):
    qkv = make(device)

    def kept(q, k, v):
        o = checkpoint(causal, q, k, v, use_reentrant=use_reentrant)
        o.backward(gradient_of(o))
        return o
    o = kept(*qkv)
    assert_equal((o, *(x.grad for x in qkv)), results_of(causal, qkv))


@pytest.mark.parametrize("casts", [False, True])
def test_checkpointing_of_a_region_that_attention_ends(device, casts):
    # The first tensors to be asked for in the backward pass are attention's, which starts the
    # region's second computation.
    def region(x):
        return causal(x * 2, x.sin(), x)

    def run(function):
        x, _, _ = make(device)
        with torch.autocast(device, torch.float16, enabled=casts):
            o = function(x)
        return o, *torch.autograd.grad(o, x, gradient_of(o))
    assert_equal(run(lambda x: checkpoint(region, x, use_reentrant=False)), run(region))


def test_a_gradient_that_only_a_torch_function_mode_needs(device):
    weight = torch.full((), 2.0, device=device, requires_grad=True)

    class Weighted(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.cuflash.forward.default:
                args = weight * args[0], *args[1:]
            return func(*args, **(kwargs or {}))
    q, k, v = (x.detach() for x in make(device))
    with Weighted():
        o = causal(q, k, v)
    assert torch.equal(o, causal(2 * q, k, v))
    assert torch.autograd.grad(o.sum(), weight)[0] != 0


def test_no_memory(device):
    q, k, v = (x.detach() for x in make(device, seqs=(1, 1), heads=(1, 1)))
    # On a GPU their O takes 2^43 bytes, which the library would take; a CPU may promise that much.
    sizes, kind = (((2**24, 2**12), torch.cuda.OutOfMemoryError) if device == "cuda" else
                   ((2**30, 2**24), RuntimeError))
    many = [x[:1].expand(*sizes, 1, -1) for x in (q, k, v)]
    with pytest.raises(kind, match="memory"):
        cuflash.flash_attn_func(*many)


# What a library that is linked with an archive of the C++ library would show too, and mix with PyTorch's.
@pytest.mark.skipif(shutil.which("nm") is None, reason="nm, of binutils, is not installed")
def test_compiled_operators_show_one_symbol():
    compiled, why = operators.load()
    if compiled is None:
        pytest.skip(why)
    folder = pathlib.Path(compiled._name).parent
    for name, symbols in (("operators", ["cuflash_operators_use"]), ("gradients_*", [])):
        path, = folder.glob(f"libcuflash_{name}.so")
        shown = subprocess.run(["nm", "-D", "--defined-only", path], check=True, text=True,
                               capture_output=True).stdout
        assert [line.split()[-1] for line in shown.splitlines()] == symbols


@pytest.mark.parametrize("name", ["libcuflash_operators.so", "libcuflash_gradients_2.11.0.so"])
def test_nothing_is_loaded_from_the_current_folder(monkeypatch, tmp_path, name):
    (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUFLASH_LIBRARY", "libcuflash_attn.so")  # which the loader would look for
    try:
        found = pathlib.Path(operators._path(name)).resolve()  # pylint: disable=protected-access
    except operators._Unavailable:  # pylint: disable=protected-access
        return
    assert found.parent != tmp_path


# Compiled operators have gradients in Python with a PyTorch for which there are no compiled ones.
def test_gradients_in_python_are_the_compiled_ones(device, monkeypatch):
    in_cpp, why = operators.gradients()
    if in_cpp is None:
        pytest.skip(why)
    qkv = make(device, heads=(4, 2))
    compiled = results_of(causal, qkv)
    assert "CppNode" in compiled[0].grad_fn.name()
    monkeypatch.setattr(ops, "_with_gradients", ops._in_python)
    assert_equal(results_of(causal, qkv), compiled)


def test_meta_tensors():
    q, k, v = make("meta", torch.float16, heads=(4, 2))
    o = causal(q, k, v)
    o.sum().backward()
    assert (o.device.type, o.shape, k.grad.shape) == ("meta", q.shape, k.shape)


def test_no_grad(device):
    with torch.no_grad():
        assert not causal(*make(device)).requires_grad


def test_no_second_derivative(device):
    q, k, v = make(device)
    grad, = torch.autograd.grad(causal(q, k, v).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="cuflash computes first derivatives only"):
        grad.sum().backward()


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_no_forward_mode_derivatives(changed):
    qkv = [x.detach() for x in make("meta")]

    def of_one(x):
        return causal(*qkv[:changed], x, *qkv[changed + 1:])
    with pytest.raises(RuntimeError, match="cuflash has no forward-mode derivatives"):
        torch.func.jvp(of_one, (qkv[changed],), (qkv[changed],))
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="no forward-mode derivatives"):
        of_one(forward_ad.make_dual(qkv[changed], qkv[changed]))


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev])
def test_no_transforms_of_torch_func(device, transform):
    q, k, v = (x.detach() for x in make(device))
    with pytest.raises(RuntimeError, match="cuflash has no derivatives for the transforms of torch.func"):
        transform(lambda q: causal(q, k, v).sum())(q)


@pytest.mark.parametrize("sizes", [{"batch": 0}, {"seqs": (0, 7)}], ids=str)
def test_no_queries(device, sizes):
    q, k, v = make(device, torch.float16, heads=(4, 2), **sizes)
    o, lse = cuflash.flash_attn_func(q, k, v, return_lse=True)
    assert (o.shape, o.dtype) == (q.shape, q.dtype)
    assert (lse.shape, lse.dtype) == ((q.shape[0], 4, q.shape[1]), torch.float32)
    o.sum().backward()
    for x in (q, k, v):
        assert torch.equal(x.grad, torch.zeros_like(x))
    bhsd = [x.transpose(1, 2) for x in (q, k, v)]
    assert cuflash.FlashAttention(32)(*bhsd).shape == bhsd[0].shape
    with pytest.raises(ValueError, match="k and v must have the same shape"):
        cuflash.flash_attn_func(q, k, v[:, 1:, :1])


@pytest.mark.parametrize("scalar", [np.float32, np.float64])
def test_a_scale_of_numpy(device, scalar):
    qkv = [x.detach() for x in make(device)]
    assert_equal([cuflash.flash_attn_func(*qkv, softmax_scale=scalar(0.25))],
                 [cuflash.flash_attn_func(*qkv, softmax_scale=0.25)])


def test_a_window_of_numpys_integers(device):
    qkv = make(device)
    assert_equal(results_of(lambda *qkv: cuflash.flash_attn_func(
        *qkv, window_size=(np.int64(3), np.int32(1)), deterministic=True), qkv),
        results_of(lambda *qkv: cuflash.flash_attn_func(
            *qkv, window_size=(3, 1), deterministic=True), qkv))


# As libraries that choose among attentions pass them, always.
def test_arguments_of_others_without_an_effect(device):
    off = {"dropout_p": 0.0, "softcap": 0.0, "alibi_slopes": None, "return_attn_probs": False,
           "attn_mask": None, "is_causal": False, "scale": None, "enable_gqa": False}
    qkv = [x.detach() for x in make(device)]

    def given(q, k, v):
        return cuflash.flash_attn_func(q, k, v, causal=True, deterministic=True, **off)
    want = [causal(*qkv)]
    assert_equal([given(*qkv)], want)
    assert_equal([compiled_without_cpp(given)(*qkv)], want)
    assert_equal([cuflash.flash_attn_func(*qkv, causal=True, dropout_p=0, softcap=0)], want)


def test_a_loss_on_lse_has_no_gradient(device):
    qkv = make(device)
    _, lse = cuflash.flash_attn_func(*qkv, return_lse=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        lse.sum().backward()


def test_deterministic_algorithms(device, calls):
    qkv = make(device)
    for setting in (False, True):
        torch.use_deterministic_algorithms(setting)
        try:
            cuflash.flash_attn_func(*qkv).sum().backward()
        finally:
            torch.use_deterministic_algorithms(False)
    cuflash.flash_attn_func(*qkv, deterministic=True).sum().backward()
    assert [args.deterministic for name, _, args in calls if name == "backward"] == [0, 1, 1]


def test_a_module_without_parameters():
    attn = cuflash.FlashAttention(head_dim=64, causal=True)
    assert str(attn) == "FlashAttention(head_dim=64, causal=True, window_size=(-1, -1))"
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        torch.optim.Adam(attn.parameters())


# ---- GPUs ---------------------------------------------------------------------------------------

BIG = {"dtype": torch.float16, "heads": (4, 2), "seqs": (300, 411), "head_dim": 64}


@pytest.mark.gpu
def test_graph_capture():
    qkv = make("cuda", **BIG)
    d_o = gradient_of(qkv[0])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        results_of(causal, qkv)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = causal(*qkv)
        grads = torch.autograd.grad(o, qkv, d_o)
    fresh = make("cuda", **BIG, seed=5)
    with torch.no_grad():
        for x, y in zip(qkv, fresh):
            x.copy_(y)
    graph.replay()
    want = causal(*fresh)
    assert_equal((o, *grads), (want, *torch.autograd.grad(want, fresh, d_o)))


@pytest.mark.gpu
def test_a_stream_that_is_not_the_default():
    qkv = [x.detach() for x in make("cuda", **BIG)]
    want = causal(*qkv)
    late = [torch.zeros_like(x) for x in qkv]
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(100_000_000)  # pylint: disable=protected-access
        for x, y in zip(late, qkv):
            x.copy_(y)
        got = causal(*late)  # on another stream it would read zeros
    torch.cuda.synchronize()
    assert torch.equal(got, want)


@pytest.mark.gpu
def test_a_device_that_is_not_the_current():
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    qkv = make("cuda:1", **BIG)
    assert torch.cuda.current_device() == 0
    got = results_of(causal, qkv)
    assert torch.cuda.current_device() == 0
    assert {x.device for x in got} == {torch.device("cuda:1")}
    assert_equal([x.cpu() for x in got],
                 [x.cpu() for x in results_of(causal, make("cuda:0", **BIG))])


# ---- The CPU simulator ----------------------------------------------------------------------------

def test_slowness_is_said_once():
    try:
        cuflash.library.on("cpu")
    except RuntimeError as error:
        pytest.skip(str(error))
    qkv = make("cpu")
    ops._say_that_it_is_slow.cache_clear()  # pylint: disable=protected-access
    with pytest.warns(UserWarning, match="CPU simulator.*slow") as said:
        causal(*qkv)
        causal(*qkv)
    assert len(said) == 1
