"""Both passes as PyTorch operators, torch.ops.cuflash.forward, forward_with_cache and backward.

All tensors are [batch, seq, heads, head_dim], with any strides; LSE is float32 [batch, heads, seq].
The arrays of a cache are None or int32 [batch]. Results are contiguous. operators.py chooses the
implementation.
"""
import functools
import re
import warnings

import torch
from torch.autograd import forward_ad

from . import capi, library, operators
from .shapes import (check_results, check_tensors, empty_results, problem_of, problem_with_cache,
                     sizes_of, sizes_with_cache)

operators.load()
_forward = torch.ops.cuflash.forward.default
_forward_with_cache = torch.ops.cuflash.forward_with_cache.default
_backward = torch.ops.cuflash.backward.default
# The stage that supports a cache. A call names it, so that its workspace has that stage's size.
_STAGE_WITH_CACHE = "20_split_kv"


def forward(q, k, v, softmax_scale, causal, window_left, window_right, deterministic, stage):
    """O and LSE; `deterministic` is for the backward pass."""
    try:
        return _forward(q, k, v, softmax_scale, causal, window_left, window_right, deterministic,
                        stage)
    except Exception as error:
        problem = q, k, v, softmax_scale, causal, window_left, window_right
        raise _explained(error, problem) from None


def forward_with_cache(*problem):
    """O and LSE; the arguments are those of problem_with_cache()."""
    if not torch.compiler.is_compiling() and problem[0].device.type == "cpu":
        _say_that_it_is_slow(stacklevel=4)
    try:
        return _forward_with_cache(*problem, _STAGE_WITH_CACHE)
    except Exception as error:
        raise _explained(error, problem, make=problem_with_cache) from None


def backward(d_o, q, k, v, o, lse, softmax_scale, causal, window_left, window_right, deterministic,
             stage, wanted):
    """dQ, dK and dV, if they are wanted."""
    try:
        return _backward(d_o, q, k, v, o, lse, softmax_scale, causal, window_left, window_right,
                         deterministic, stage, wanted)
    except Exception as error:
        problem = q, k, v, softmax_scale, causal, window_left, window_right
        raise _explained(error, problem, (o, d_o, lse, wanted)) from None


def _explained(error, problem, results=(), make=problem_of):
    """The exception that explains the error. The compiled operators can only raise RuntimeError; Python
    finds the tensors that do not fit. `problem` has the arguments of `make`, q, k and v first."""
    if isinstance(error, (capi.CuflashError, torch.cuda.OutOfMemoryError)):
        return error
    if "override the setup_context" in str(error):
        return RuntimeError("cuflash has no derivatives for the transforms of torch.func (grad, vjp, "
                            "jacrev). Use backward() or torch.autograd.grad, or "
                            "scaled_dot_product_attention with the backend SDPBackend.MATH.")
    said = re.match(r"cuflash error (\d+): (.*)", str(error))
    if said:
        return capi.error(int(said[1]), said[2])
    q, k, v = problem[:3]
    # A message that quotes CUFLASH_STAGE may not be UTF-8: PyTorch loses it or cannot decode it.
    if isinstance(error, UnicodeDecodeError) or (type(error) is RuntimeError and not error.args):
        return capi.error(capi.ErrorCode.UNKNOWN_STAGE, library.on(q.device.type).last_message())
    try:
        fits = make(*problem)
        if results:
            check_results(q, *results)
        if q.device.type != "meta":
            library.on(q.device.type)
        if "aoti_torch_empty_strided" in str(error):  # PyTorch's reason is lost: try once more
            _allocate_again(fits, q, k, v, bool(results))
    except (OSError, RuntimeError, TypeError, ValueError) as found:
        return found
    return error


def _allocate_again(problem, q, k, v, for_backward):
    """Raises PyTorch's exception if there is still no memory for a call's results and workspace."""
    direction = "backward" if for_backward else "forward"
    count = library.on(q.device.type).workspace_bytes(direction, problem) if q.is_cuda else 0
    results = [x.new_empty(x.shape) for x in (q, k, v)] if for_backward else empty_results(q)
    return *results, q.new_empty(count, dtype=torch.uint8)


# ---- Without computing --------------------------------------------------------------------------

@torch.library.register_fake("cuflash::forward")
def _(q, k, v, *_options):
    check_tensors(q, k, v)
    sizes_of(q, k, v)
    return empty_results(q)


@torch.library.register_fake("cuflash::forward_with_cache")
def _(q, k_cache, v_cache, cache_seqlens, cache_batch_idx, cache_leftpad, *_options):
    sizes_with_cache(q, k_cache, v_cache, cache_seqlens=cache_seqlens,
                     cache_batch_idx=cache_batch_idx, cache_leftpad=cache_leftpad)
    return empty_results(q)


@torch.library.register_fake("cuflash::backward")
def _(d_o, q, k, v, o, lse, *options):
    *_, wanted = options
    check_tensors(q, k, v)
    sizes_of(q, k, v)
    check_results(q, o, d_o, lse, wanted)
    return [x.new_empty(x.shape) for x, want in zip((q, k, v), wanted) if want]


# ---- Gradients ----------------------------------------------------------------------------------

def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3], *output)
    ctx.options = inputs[3:]
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx, d_o, _):
    return (*_of_qkv(ctx, d_o, ctx.saved_tensors), *[None] * len(ctx.options))


def _of_qkv(ctx, d_o, saved):
    """dQ, dK and dV; None for one that is not wanted."""
    wanted = list(ctx.needs_input_grad[:3])
    grads = backward(d_o, *saved, *ctx.options, wanted)
    for position, want in enumerate(wanted):
        if not want:
            grads.insert(position, None)
    return grads


def _no_second_derivative(ctx, *grads):
    raise RuntimeError("cuflash computes first derivatives only: there is no backward pass of its "
                       "backward pass. For a second derivative use scaled_dot_product_attention "
                       "with the backend SDPBackend.MATH.")


torch.library.register_autograd("cuflash::forward", _gradients, setup_context=_keep)
torch.library.register_autograd("cuflash::backward", _no_second_derivative,
                                setup_context=lambda ctx, inputs, output: None)


# ---- The fast path ------------------------------------------------------------------------------
# For eager tensors: a gradient that is registered with an operator costs PyTorch more.

# pylint: disable=protected-access
class _Attention(torch.autograd.Function):  # pylint: disable=abstract-method
    """The operators with their gradients, in Python."""

    @staticmethod
    def forward(ctx, q, k, v, options, lse_too):  # pylint: disable=arguments-differ
        with torch._C._AutoDispatchBelowAutograd():
            o, lse = forward(q, k, v, *options)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.options = options
        lse_too.append(lse)  # not returned: PyTorch would make a gradient of zeros for it
        return o

    @staticmethod
    def backward(ctx, d_o):  # pylint: disable=arguments-differ
        saved = ctx.saved_tensors  # with autograd: under checkpoint, this computes them again
        if torch.is_grad_enabled() or torch.compiler.is_compiling():  # create_graph, say
            return (*_of_qkv(ctx, d_o, saved), None, None)
        with torch._C._AutoDispatchBelowAutograd():
            return (*_of_qkv(ctx, d_o, saved), None, None)


def _in_python(q, k, v, *options):
    """forward() with gradients in Python."""
    lse = []
    return _Attention.apply(q, k, v, options, lse), lse[0]


_compiled, _ = operators.gradients()
if _compiled:
    # They call it if cuflash::backward fails: here the reason becomes an exception.
    _library = torch.library.Library("cuflash", "FRAGMENT")
    _library.define("backward_again" + str(_backward._schema).split("backward", maxsplit=1)[1])
    _library.impl("backward_again", backward, "CompositeExplicitAutograd")


def _in_cpp(*args):
    """forward() with the compiled gradients."""
    try:
        return _compiled(*args)
    except Exception as error:
        raise _explained(error, args[:7]) from None


_with_gradients = _in_cpp if _compiled else _in_python


def attention(q, k, v, *options):
    """forward() and its gradients, in the cheapest way."""
    if (torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
            or torch._C._has_torch_function_variadic(q, k, v)):  # they may change q, k, v
        check_tensors(q, k, v)
        _check_no_tangents(q, k, v)
        return forward(q, k, v, *options)
    if forward_ad._current_level >= 0:
        _check_no_tangents(q, k, v)
    if not q.is_cuda and q.device.type == "cpu":
        _say_that_it_is_slow(stacklevel=6)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return _with_gradients(q, k, v, *options)
    with torch._C._AutoDispatchBelowAutograd():
        return forward(q, k, v, *options)


@functools.lru_cache(maxsize=None)
def _say_that_it_is_slow(stacklevel):  # the caller's of the package
    warnings.warn("cuflash: tensors on cpu are computed by the CPU simulator, which shows what "
                  "kernels do and is slow.", stacklevel=stacklevel)


def _check_no_tangents(*qkv):
    if any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in qkv):
        raise RuntimeError("cuflash has no forward-mode derivatives (torch.func.jvp, jacfwd). For "
                           "them use scaled_dot_product_attention with the backend "
                           "SDPBackend.MATH.")
