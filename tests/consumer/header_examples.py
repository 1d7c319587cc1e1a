#!/usr/bin/env python3
"""Compiles every example of the installed headers: each @code block in its own function.

The names that an example uses and does not declare (Q, stream, problem, …) come from a prelude.
"""
import argparse
import pathlib
import re
import sys

from common import outside, run

BLOCK = re.compile(r"^/// @code(\S*)\n(.*?)^/// @endcode$", re.DOTALL | re.MULTILINE)
# If one of these headers has no examples, they were lost.
WITH_EXAMPLES = ("c_api.h", "flash_attention.h")

ARRAYS = "float *Q, *K, *V, *O, *L, *dO, *dQ, *dK, *dV, *data;\nstatic cudaStream_t stream;\n"
PRELUDE = {
    ".c": '#include <stdio.h>\n#include "cuflash/c_api.h"\n'
          f"static {ARRAYS}static cuflash_problem problem;\n"
          "static cuflash_tensor q, k, v, o, d_o, dq, dk, dv;\n",
    ".cpp": '#include <cstdio>\n#include <stdexcept>\n#include "cuflash/flash_attention.h"\n'
            f"static {ARRAYS}static cuflash::Problem p;\n",
}


def examples(header):
    """(language, line, code) of each block."""
    text = header.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        code = re.sub(r"^/// ?", "", match[2], flags=re.MULTILINE)
        yield match[1].strip("{}"), text.count("\n", 0, match.start()) + 2, code


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prefix", type=pathlib.Path, required=True)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    args = parser.parse_args()
    compilers = {".c": [args.cc, "-xc", "-std=c11"], ".cpp": [args.cxx, "-xc++", "-std=c++17"]}

    functions = {language: [] for language in PRELUDE}
    for header in sorted((args.prefix / "include/cuflash").iterdir()):
        found = list(examples(header))
        if len(found) != header.read_text(encoding="utf-8").count("@code"):
            sys.exit(f"{header}: a @code block is not of the form that this script reads")
        if not found and header.name in WITH_EXAMPLES:
            sys.exit(f"{header} has no example")
        for language, line, code in found:
            if language not in functions:
                sys.exit(f"{header}:{line}: an example in '{language}'; it must be .c or .cpp")
            name = f"{header.stem}_line_{line}"
            functions[language].append(f'void {name}(void);\nvoid {name}(void) {{\n'
                                       f'#line {line} "{header.name}"\n{code}}}\n')

    for language, bodies in functions.items():
        if not bodies:
            sys.exit(f"there is no example in {language}")
        # An example may show a result that it does not use, or ignore an error.
        run([*compilers[language], "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable",
             "-Wno-unused-but-set-variable", "-I", args.prefix / "include", "-fsyntax-only", "-"],
            input=PRELUDE[language] + "\n".join(bodies), env=outside())
        print(f"{len(bodies)} examples in {language} compile")


if __name__ == "__main__":
    main()
