"""The choice of operators: the compiled ones of libcuflash_operators.so, or those through ctypes;
and of the gradients: libcuflash_gradients_*.so, or Python.

The compiled operators work with PyTorch 2.10 and later, the compiled gradients with the version in
the file's name alone. They are beside the library that CUFLASH_LIBRARY names, or in the package's
folder. With CUFLASH_OPERATORS=ctypes neither is used.
"""
import ctypes
import functools
import importlib
import os
import pathlib

import torch

from . import library

_NAME = "libcuflash_operators.so"
_VERSION = torch.__version__.split("+", maxsplit=1)[0]
_NAME_OF_GRADIENTS = f"libcuflash_gradients_{_VERSION}.so"
_OLDEST = (2, 10)  # the first PyTorch with all of the stable ABI that they use
_CALLED = ("cuflash_forward", "cuflash_backward", "cuflash_workspace_bytes",
           "cuflash_last_error_message")
DEVICES = ("cuda", "cpu")


class _Unavailable(Exception):
    """Why the compiled operators cannot be used."""


class Table(ctypes.Structure):
    """struct Library of operators.cpp: the addresses of the library's functions."""
    _fields_ = [(name, ctypes.c_void_p) for name in _CALLED]


@functools.lru_cache(maxsize=None)
def load():
    """Defines the operators. Returns the compiled ones as a ctypes library, or None, and the reason
    for using those through ctypes."""
    try:
        compiled = _compiled()
    except _Unavailable as why:
        importlib.import_module(".ctypes_operators", __package__)
        return None, str(why)
    for device in DEVICES:
        use(compiled, device, table_of(device))
    return compiled, ""


@functools.lru_cache(maxsize=None)
def gradients():
    """torch.ops.cuflash.attention, the compiled gradients, or None, and the reason why there are
    none."""
    compiled, why = load()
    if compiled is None:
        return None, why
    try:
        torch.ops.load_library(_path(_NAME_OF_GRADIENTS))
    except (OSError, _Unavailable) as error:
        return None, str(error)
    return torch.ops.cuflash.attention.default, ""


def use(compiled, device, table):
    """Gives the compiled operators the functions to call for tensors on "cuda" or "cpu". With None
    they refuse such tensors."""
    compiled.cuflash_operators_use(device == "cuda", table)


def _compiled():
    asked_for = os.environ.get("CUFLASH_OPERATORS", "")
    if asked_for not in ("", "ctypes"):
        raise ValueError(f'CUFLASH_OPERATORS is "{asked_for}"; it must be "ctypes" or empty')
    if asked_for == "ctypes":
        raise _Unavailable("CUFLASH_OPERATORS is ctypes")
    if tuple(int(word) for word in torch.__version__.split(".")[:2]) < _OLDEST:
        raise _Unavailable(f"PyTorch {torch.__version__} is older than 2.10")
    path = _path(_NAME)
    try:
        torch.ops.load_library(path)
        compiled = ctypes.CDLL(path)
    except OSError as error:
        raise _Unavailable(f"{path} cannot be loaded: {error}") from error
    compiled.cuflash_operators_use.argtypes = ctypes.c_int, ctypes.POINTER(Table)
    return compiled


def _path(name):
    try:
        beside = pathlib.Path(library.first().folder())
    except (OSError, RuntimeError) as error:
        raise _Unavailable(str(error)) from error
    places = dict.fromkeys((beside, pathlib.Path(__file__).parent))
    for place in places:
        if (place / name).exists():
            return str(place / name)
    raise _Unavailable(f"there is no {name} in {' or '.join(map(str, places))}: where the library "
                       f"was built, the headers of PyTorch {_VERSION} were not found")


def table_of(device):
    """The functions of a device's library, or None if there is none."""
    try:
        found = library.on(device)
    except (OSError, RuntimeError):  # an operator called on that device reports the reason
        return None
    return Table(*map(found.address, _CALLED))


def backend_info():
    """The operators and libraries in use, as a dict:

    operators   "compiled" (C++ over PyTorch's stable ABI) or "ctypes" (Python; a call costs more)
    gradients   "compiled" (C++ for this PyTorch alone) or "python" (a call costs a little more)
    reason      why one of the two is not "compiled", else ""
    cuda, cpu   the library for tensors on that device, or the reason why there is none
    """
    compiled, _ = load()
    in_cpp, reason = gradients()
    info = {"operators": "compiled" if compiled else "ctypes",
            "gradients": "compiled" if in_cpp else "python", "reason": reason}
    for device in DEVICES:
        try:
            info[device] = library.on(device).path
        except (OSError, RuntimeError) as error:
            info[device] = str(error)
    return info
