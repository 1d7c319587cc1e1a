#!/usr/bin/env python3
"""Checks what the installed library exposes.

It exports exactly the functions that c_api.h declares. Its names carry the version of version.h.
Built for GPUs, it needs only the system's libraries. Each installed header compiles alone, without
CUDA's headers.
"""
import argparse
import pathlib
import re
import sys

from common import declared, exported, library, outside, run, version

IN_C = ("c_api.h", "flash_attention.h", "version.h")
SYSTEM = ("libc.so", "libm.so", "libgcc_s.so", "libstdc++.so", "libpthread.so", "libdl.so", "librt.so",
          "ld-linux")


def compare(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: {found}\nexpected: {expected}")
    print(f"{what}: ok")


def dynamic(lib, tag):
    """The entries of the dynamic section with this tag."""
    output = run(["readelf", "-d", lib])
    return re.findall(rf"\({tag}\).*\[(.*)\]", output)


def check_library(prefix, backend):
    lib = library(prefix)
    major, minor, patch = version(prefix)
    functions, visible = declared(prefix), exported(lib)
    if not functions:
        sys.exit("c_api.h declares no function")
    compare("exports that c_api.h does not declare", sorted(visible - functions), [])
    compare("functions of c_api.h that are not exported", sorted(functions - visible), [])
    compare("file name", lib.resolve().name, f"libcuflash_attn.so.{major}.{minor}.{patch}")
    compare("SONAME", dynamic(lib, "SONAME"), [f"libcuflash_attn.so.{major}"])
    if backend == "cuda":
        strange = [name for name in dynamic(lib, "NEEDED") if not name.startswith(SYSTEM)]
        compare("libraries beside the system's", strange, [])


def check_header(prefix, name, compiler, language):
    """Compiles one header alone; it may include its neighbours and the language's own headers."""
    command = [compiler, *language, "-Wall", "-Wextra", "-Wshadow", "-Werror", "-pedantic",
               "-I", prefix / "include", "-"]
    source = f'#include "cuflash/{name}"\nextern int a_file_of_c_declares_something;\n'
    run([*command, "-fsyntax-only"], input=source, env=outside())
    included = run([*command, "-M"], input=source, env=outside()).replace("\\\n", " ").split()[1:]
    cuda = [path for path in included if re.match(r"cuda|vector_types|driver_types|host_defines",
                                                  pathlib.Path(path).name)]
    compare(f"{name} as {language[-1]}, headers of CUDA", cuda, [])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prefix", type=pathlib.Path, required=True)
    parser.add_argument("--backend", choices=("cuda", "simt"), required=True)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    args = parser.parse_args()

    check_library(args.prefix, args.backend)
    headers = sorted(path.name for path in (args.prefix / "include/cuflash").iterdir())
    missing = set(IN_C) - set(headers)
    if missing:
        sys.exit(f"not installed: {missing}")
    for name in headers:
        check_header(args.prefix, name, args.cxx, ["-xc++", "-std=c++17"])
        if name in IN_C:
            check_header(args.prefix, name, args.cc, ["-xc", "-std=c11"])


if __name__ == "__main__":
    main()
