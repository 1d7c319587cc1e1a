#!/usr/bin/env python3
"""Shows what one call of each stage does: its kernels, their time, and the host's time.

    pip install ./python
    python3 examples/profile_attention.py --seq 4096 --dtype bf16

For each stage and pass it prints the device time of each kernel that torch.profiler sees in a
single call. The host's time is the time until the call returns, with its kernels queued: the median
of five calls without the profiler. For a pass that a stage lacks it prints the library's reason.
"""
import argparse
import re
import statistics
import sys
import time
import warnings

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

import cuflash
from cuflash.capi import ErrorCode
from cuflash.shapes import DTYPES

NAMES = {name: dtype for dtype, name in DTYPES.items()}
NOT_HERE = (ErrorCode.UNSUPPORTED_BY_STAGE, ErrorCode.UNSUPPORTED_DEVICE)
HOST_CALLS = 5


def options():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="default: cuda")
    for name, default in (("batch", 4), ("heads", 16), ("seq", 1024), ("head-dim", 64)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    parser.add_argument("--dtype", choices=NAMES, default="f16", help="default: f16")
    parser.add_argument("--causal", action="store_true", help="with a causal mask")
    return parser.parse_args()


def passes(args, stage):
    """Yields (name, function that queues it) of each pass: backward needs forward's graph."""
    shape = args.batch, args.seq, args.heads, args.head_dim
    q, k, v, d_o = (torch.randn(shape, device="cuda", dtype=NAMES[args.dtype]) for _ in range(4))
    qkv = [tensor.requires_grad_() for tensor in (q, k, v)]

    def forward():
        return cuflash.flash_attn_func(*qkv, causal=args.causal, stage=stage)
    yield "forward", forward
    o = forward()
    yield "backward", lambda: torch.autograd.grad(o, qkv, d_o, retain_graph=True)


def host_us(call):
    """The time until a call returns; the device is idle before the call."""
    times = []
    for _ in range(HOST_CALLS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times)


def kernels(call):
    """(name, µs on the device) of each kernel of one call, in the order in which they ran."""
    torch.cuda.synchronize()
    warnings.filterwarnings("ignore", "Warning: Profiler clears events")  # of earlier calls
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    events = [event for event in profiler.events() if event.device_type == DeviceType.CUDA]
    events.sort(key=lambda event: event.time_range.start)
    return [(short(event.name), event.time_range.elapsed_us()) for event in events]


def short(name):
    """A kernel's name without its result, its template arguments and its parameters.

    >>> short("void cuflash::tiled::(anonymous namespace)::scores<Config<64>, true>(float*, int)")
    'cuflash::tiled::scores'
    >>> short("Memset (Device)")
    'Memset (Device)'
    """
    name = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    return re.split(r"[<(](?!Device)", name, maxsplit=1)[0].strip()


def rows(args, stage):
    """The lines of a stage."""
    for direction, call in passes(args, stage):
        try:
            call()  # loads the kernels
        except cuflash.CuflashError as error:
            if error.code not in NOT_HERE:
                raise
            yield stage, direction, f"not run: {error}", "", ""
            if direction == "forward":
                return
            continue
        host = f"{host_us(call):.0f}"
        for name, us in kernels(call):
            yield stage, direction, name, f"{us:.1f}", host
            host = ""


def table(lines):
    """Prints columns as wide as needed, with figures aligned right."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        cells = [cell.rjust(width) if column > 2 else cell.ljust(width)
                 for column, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip())


def main():
    """Profiles every stage."""
    args = options()
    if args.device == "cpu":
        sys.exit("On the CPU simulator a kernel's time is that of a simulation and says nothing about "
                 "a GPU. It counts instead: scripts/run.sh shows the bytes that each stage asks for.")
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU, and this example measures on one.")
    print(f"{torch.cuda.get_device_name()}, {args.dtype}, batch {args.batch}, {args.heads} heads, "
          f"{args.seq} tokens, head_dim {args.head_dim}, {'' if args.causal else 'not '}causal")
    lines = [("stage", "pass", "kernel", "device, µs", "host, µs")]
    for stage in cuflash.stages():
        lines += rows(args, stage)
    table(lines)


if __name__ == "__main__":
    main()
