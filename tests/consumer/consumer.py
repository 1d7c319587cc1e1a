#!/usr/bin/env python3
"""Installs the library, and uses it as a program outside of this repository would.

    consumer.py install --build DIR --prefix DIR
    consumer.py cpp|c|python|rust|version|pkg_config|subdirectory|options --prefix DIR
                --scratch DIR --backend cuda|simt

The examples are copied to the scratch folder, built there with nothing but the prefix, and run. Exit
code 77 means skipped; the output says why. Without a GPU a program that needs one is built and not
run, unless the environment says CUFLASH_REQUIRE_GPU=1.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from common import declared, exported, library, outside, run, skip, version

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
WARNINGS = "-Wall -Wextra -Werror"


def install(args):
    shutil.rmtree(args.prefix, ignore_errors=True)
    run(["cmake", "--install", args.build, "--prefix", args.prefix])


def need_gpu(args):
    """Skips if the library needs a GPU and there is none."""
    if args.backend != "cuda" or os.environ.get("CUFLASH_REQUIRE_GPU") == "1":
        return
    try:
        gpus = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        gpus = ""
    if "GPU " not in gpus:
        skip("there is no NVIDIA GPU here: the example is not run.")


def copy_example(args, name):
    """The example in the scratch folder, alone."""
    shutil.rmtree(args.scratch, ignore_errors=True)
    return shutil.copytree(EXAMPLES / name, args.scratch)


def cmake_example(args, name, variables):
    source = copy_example(args, name)
    build = source / "build"
    run(["cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={args.prefix}",
         *variables], env=outside())
    run(["cmake", "--build", build], env=outside())
    need_gpu(args)
    print(run([build / "attention"], env=outside()))


def cpp(args):
    flags = WARNINGS + (" -fsanitize=address" if args.asan else "")
    cmake_example(args, "cpp", [f"-DCMAKE_CXX_COMPILER={args.cxx}", f"-DCMAKE_CXX_FLAGS={flags}"])


def c(args):
    flags = WARNINGS + " -pedantic" + (" -fsanitize=address" if args.asan else "")
    cmake_example(args, "c", [f"-DCMAKE_C_COMPILER={args.cc}", f"-DCMAKE_C_FLAGS={flags}"])


def foreign(args):
    """The environment for a program of another compiler, built without AddressSanitizer."""
    if not args.asan:
        return outside()
    needed = [run([args.cxx, f"-print-file-name={name}"]).strip()
              for name in ("libasan.so", "libstdc++.so")]
    return outside() | {"LD_PRELOAD": " ".join(needed), "ASAN_OPTIONS": "detect_leaks=0"}


def python(args):
    source = copy_example(args, "python") / "attention.py"
    modules = "numpy, torch" if args.backend == "cuda" else "numpy"
    if args.backend == "cuda":
        need_gpu(args)
    for interpreter in (sys.executable, "/usr/bin/python3"):
        if not shutil.which(interpreter):
            continue
        probe = subprocess.run([interpreter, "-c", f"import {modules}"], capture_output=True, check=False)
        if probe.returncode == 0:
            print(run([interpreter, source, library(args.prefix)], env=foreign(args)))
            return
    skip(f"the example needs Python with {modules}.")


def rust(args):
    # If rustup has no toolchain, there is a rustc that does not work.
    if not shutil.which("rustc") or subprocess.run(["rustc", "--version"], capture_output=True,
                                                   check=False).returncode:
        skip("there is no rustc here.")
    source = copy_example(args, "rust")
    folder = library(args.prefix).parent
    run(["rustc", "-D", "warnings", "attention.rs", "-L", folder, "-l", "cuflash_attn"], cwd=source,
        env=outside())
    if args.backend == "cuda":
        skip("it compiles, but uses the program's own memory, which a GPU does not reach.")
    print(run([source / "attention"], env=foreign(args) | {"LD_LIBRARY_PATH": str(folder)}))


def find(args, wanted):
    """The answer of find_package(cuflash `wanted`)."""
    shutil.rmtree(args.scratch, ignore_errors=True)
    output = run(["cmake", "-G", "Ninja", "-S", HERE / "version", "-B", args.scratch,
                  f"-DCMAKE_PREFIX_PATH={args.prefix}", f"-Dwanted={wanted}"], env=outside())
    return next(line for line in output.splitlines() if line.startswith("-- found"))


def check_version(args):
    """While the major version is 0, a program gets the minor version that it asks for."""
    major, minor, patch = version(args.prefix)
    looked_at = f"looked at '{major}.{minor}.{patch}'"
    expected = {f"{major}.{minor}": f"-- found 1, backend '{args.backend}', {looked_at}",
                f"{major}.{minor + 1}": f"-- found 0, backend '', {looked_at}",
                f"{major + 1}.0": f"-- found 0, backend '', {looked_at}"}
    if minor > 0:
        expected[f"{major}.{minor - 1}"] = f"-- found 0, backend '', {looked_at}"
    for wanted, answer in expected.items():
        given = find(args, wanted)
        print(f"find_package(cuflash {wanted}): {given}")
        if given != answer:
            sys.exit(f"expected: {answer}")


def pkg_config(args):
    """The flags of pkg-config are enough for a C program, even if the prefix was moved."""
    if not shutil.which("pkg-config"):
        skip("there is no pkg-config here.")
    shutil.rmtree(args.scratch, ignore_errors=True)
    moved = args.scratch / "moved"
    shutil.copytree(args.prefix, moved, symlinks=True)
    file, = moved.rglob("cuflash.pc")
    env = outside() | {"PKG_CONFIG_PATH": str(file.parent)}
    found = run(["pkg-config", "--modversion", "cuflash"], env=env).strip()
    if found != ".".join(map(str, version(args.prefix))):
        sys.exit(f"pkg-config says that it is version {found}")
    flags = run(["pkg-config", "--cflags", "--libs", "cuflash"], env=env).split()
    source = args.scratch / "first_stage.c"
    source.write_text('#include <cuflash/c_api.h>\n#include <stdio.h>\n'
                      "int main(void) { return puts(cuflash_stage_name(0)) < 0; }\n", encoding="ascii")
    program = args.scratch / "first_stage"
    asan = ["-fsanitize=address"] if args.asan else []
    run([args.cc, *asan, source, *flags, f"-Wl,-rpath,{library(moved).parent}", "-o", program], env=env)
    print(run([program], env=env))


def subdirectory(args):
    """As a part of another project, only the library is built, and its license does not replace the
    project's. If the project hides its symbols, the C interface is still visible. (The library's objects without its kernels suffice to check.)
    """
    shutil.rmtree(args.scratch, ignore_errors=True)
    args.scratch.mkdir(parents=True)
    (args.scratch / "CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES CXX)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
include(GNUInstallDirs)
add_subdirectory({HERE.parents[1]} cuflash)
add_library(user INTERFACE)
target_link_libraries(user INTERFACE cuflash::cuflash)
add_library(interface SHARED $<TARGET_OBJECTS:cuflash_api>)
foreach(name cuflash_attn unit_tests cuflash_tests ladder)
  if(TARGET ${{name}})
    message(STATUS "has ${{name}}")
  endif()
endforeach()
""", encoding="utf-8")
    output = run(["cmake", "-G", "Ninja", "-S", args.scratch, "-B", args.scratch / "build",
                  f"-DCUFLASH_BACKEND={args.backend}", f"-DCMAKE_CXX_COMPILER={args.cxx}"], env=outside())
    targets = [line.split()[-1] for line in output.splitlines() if line.startswith("-- has ")]
    if targets != ["cuflash_attn"]:
        sys.exit(f"the parent project gets {targets}")
    installs = (args.scratch / "build/cuflash/cmake_install.cmake").read_text(encoding="utf-8")
    if "/share/doc/parent" in installs or "/share/doc/cuflash" not in installs:
        sys.exit("the license is not installed in share/doc/cuflash")
    run(["cmake", "--build", args.scratch / "build", "--target", "interface"], env=outside())
    hidden = declared(args.prefix) - exported(args.scratch / "build/libinterface.so")
    if hidden:
        sys.exit(f"hidden by the parent project: {sorted(hidden)}")


def options(args):
    """Builds with packagers' options: no tests, folders of their own, and link-time optimization, from
    which the CPU simulator excludes its kernels."""
    shutil.rmtree(args.scratch, ignore_errors=True)
    run(["cmake", "-G", "Ninja", "-S", HERE.parents[1], "-B", args.scratch, "-DBUILD_TESTING=OFF",
         "-DCMAKE_INSTALL_LIBDIR=/opt/cuflash/lib", "-DCMAKE_INSTALL_INCLUDEDIR=inc/sub",
         "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON", "-DCMAKE_CXX_FLAGS=-flto",
         f"-DCUFLASH_BACKEND={args.backend}", f"-DCMAKE_CXX_COMPILER={args.cxx}"], env=outside())
    compiled = json.loads((args.scratch / "compile_commands.json").read_text(encoding="utf-8"))
    tests = [entry["file"] for entry in compiled if entry["file"].startswith(f"{HERE.parent}/")]
    if tests or not compiled:
        sys.exit(f"tests are compiled without BUILD_TESTING: {tests}")
    for entry in compiled:
        if args.backend == "simt" and entry["file"].startswith(f"{HERE.parents[1]}/stages/"):
            last = re.findall(r"-f(?:no-)?lto\S*", entry["command"])[-1]
            if last != "-fno-lto":
                sys.exit(f"link-time optimization of a kernel: {entry['command']}")
    package = (args.scratch / "cuflash.pc").read_text(encoding="utf-8")
    targets = "".join(file.read_text(encoding="utf-8") for file in args.scratch.rglob("cuflashTargets.cmake"))
    if "libdir=/opt/cuflash/lib\nincludedir=${prefix}/inc/sub\n" not in package:
        sys.exit(f"the folders in cuflash.pc are wrong:\n{package}")
    if 'INTERFACE_INCLUDE_DIRECTORIES "${_IMPORT_PREFIX}/inc/sub"' not in targets:
        sys.exit(f"the include folder in cuflashTargets.cmake is wrong:\n{targets}")
    run(["ninja", "-n"], cwd=args.scratch, env=outside())  # All can be built.


STEPS = {"install": install, "cpp": cpp, "c": c, "python": python, "rust": rust,
         "version": check_version, "pkg_config": pkg_config, "subdirectory": subdirectory,
         "options": options}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--build", type=pathlib.Path, help="install: the build to install")
    parser.add_argument("--prefix", type=pathlib.Path, required=True)
    parser.add_argument("--scratch", type=pathlib.Path)
    parser.add_argument("--backend", choices=("cuda", "simt"))
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--asan", action="store_true", help="the library has AddressSanitizer")
    args = parser.parse_args()
    STEPS[args.step](args)


if __name__ == "__main__":
    main()
