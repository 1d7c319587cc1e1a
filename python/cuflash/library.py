"""The choice of the library: the package's own or the one that CUFLASH_LIBRARY names, and one more
for tensors in host memory if CUFLASH_SIMT_LIBRARY names it."""
import functools
import os
import pathlib

from .capi import Library

_OWN = pathlib.Path(__file__).with_name("libcuflash_attn.so")
_BACKENDS = {"cuda": "cuda", "cpu": "simt"}  # by the type of the tensors' device


@functools.lru_cache(maxsize=None)
def first():
    """The library, for either backend."""
    named = _named_by("CUFLASH_LIBRARY")
    if not named and not _OWN.exists():
        raise RuntimeError(f"There is no {_OWN}. Install the package (pip install ./python), or "
                           "set the environment variable CUFLASH_LIBRARY to a libcuflash_attn.so.")
    return named or Library(_OWN)


@functools.lru_cache(maxsize=None)
def _second():
    """The second library, for the CPU simulator, or None."""
    return _named_by("CUFLASH_SIMT_LIBRARY")


def _named_by(variable):
    """The library that an environment variable names, or None."""
    path = os.environ.get(variable)
    try:
        return Library(path) if path else None
    except OSError as error:
        raise OSError(f"{variable} names a library that cannot be used: {error}") from error


@functools.lru_cache(maxsize=None)
def on(device_type):
    """The library for tensors on "cuda" or "cpu"."""
    if device_type not in _BACKENDS:
        raise ValueError(f"The tensors are on {device_type}; cuflash computes on cuda and on cpu.")
    backend = _BACKENDS[device_type]
    if first().backend == backend:
        return first()
    if backend == "cuda":
        raise RuntimeError(
            f"The tensors are on cuda, and {first().path} is the CPU simulator's library. Install "
            "the package on a machine with nvcc, or set CUFLASH_LIBRARY to a library built on one.")
    if _second() is None:
        raise RuntimeError(
            f"The tensors are on cpu, and {first().path} computes on cuda. Move them to cuda, or "
            "build the CPU simulator's library (cmake --preset simt, then cmake --build build/simt "
            "--target cuflash_attn) and set CUFLASH_SIMT_LIBRARY to its path.")
    if _second().backend != backend:
        raise RuntimeError(f"CUFLASH_SIMT_LIBRARY is {_second().path}, which computes on cuda; "
                           "tensors on cpu need the CPU simulator's library.")
    return _second()


def stages():
    """The names of the library's stages, in teaching order; each can be given as `stage`."""
    return first().stages()
