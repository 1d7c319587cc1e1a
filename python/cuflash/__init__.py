"""CuFlash Ladder's attention for PyTorch; the package's README.md shows its use.

`import cuflash`, cuflash.stages() and cuflash.capi need no PyTorch; it is imported when a function
on tensors is first used.
"""
import importlib
import importlib.util
import sys

from .capi import CuflashError, CuflashValueError
from .library import first as _first
from .library import stages

_LAZY_EXPORTS = {"flash_attn_func": "functional", "flash_attention_cuda": "functional",
                 "flash_attn_with_kvcache": "kvcache", "FlashAttention": "module",
                 "backend_info": "operators"}
__all__ = ["CuflashError", "CuflashValueError", "stages",
           *(_LAZY_EXPORTS
             if sys.modules.get("torch") or importlib.util.find_spec("torch") else ())]


def __getattr__(name):
    if name == "__version__":
        return _first().version
    if name not in _LAZY_EXPORTS:
        raise AttributeError(f"module 'cuflash' has no attribute {name!r}")
    _check_torch(name)
    found = getattr(importlib.import_module(f".{_LAZY_EXPORTS[name]}", __name__), name)
    globals()[name] = found
    return found


def _check_torch(name):
    needs = f"cuflash.{name} needs PyTorch 2.4 or later"
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":  # PyTorch is installed, but lacks something
            raise
        raise ImportError(f"{needs}, and it is not installed: "
                          "https://pytorch.org/get-started") from error
    if not hasattr(torch.library, "custom_op"):
        raise ImportError(f"{needs}; this is {torch.__version__}")


def __dir__():
    return sorted({*globals(), *_LAZY_EXPORTS, "__version__"})
