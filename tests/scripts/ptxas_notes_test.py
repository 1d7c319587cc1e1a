#!/usr/bin/env python3
"""scripts/maintainer/ptxas_notes.py, with kernels for which nvcc makes the notes.

    tests/scripts/ptxas_notes_test.py

Needs nvcc, and no GPU.
"""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVCC = os.environ.get("CUDACXX", "nvcc")

# A product of a warpgroup. %s stands between its issue and the wait for it.
PRODUCT = """
#include <cstdio>
__global__ void product(float* out, unsigned long long a, unsigned long long b) {
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%%0, %%1, %%2, %%3}, %%4, %%5, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  %s
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}
"""
# Without __launch_bounds__, ptxas does not know how many registers the kernel begins with.
REGISTERS = """
__global__ void registers(float* out) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
  out[threadIdx.x] = 1;
}
"""


class PtxasNotes(unittest.TestCase):
    """What the program does with the notes for a source."""

    def compiled(self, source):
        """The exit status, what is on stderr, and what is kept of the kernels; None without an object."""
        with tempfile.TemporaryDirectory() as folder:
            file, built = pathlib.Path(folder, "kernel.cu"), pathlib.Path(folder, "kernel.o")
            file.write_text(source)
            run = subprocess.run(
                [ROOT / "scripts/maintainer/ptxas_notes.py", NVCC, "-c", file, "-Xptxas=-v",
                 "--generate-code=arch=compute_90a,code=sm_90a", "-o", built],
                stderr=subprocess.PIPE, text=True)
            kept = built.with_name("kernel.o.ptxas").read_text() if built.exists() else None
            return run.returncode, run.stderr, kept

    def test_what_ptxas_says_of_each_kernel_is_kept(self):
        status, text, kept = self.compiled(PRODUCT % "")
        self.assertEqual((status, text), (0, ""))
        self.assertRegex(kept, r"Compiling entry function '\w*product\w*' for 'sm_90a'\n"
                               r"(?s:.*) 0 bytes spill stores(?s:.*)Used \d+ registers")

    def test_notes_that_are_errors(self):
        for source, note in ((PRODUCT % "d[0] *= 2;", "(C7517)"),
                             (PRODUCT % 'printf("between");', "(C7510) Potential Performance Loss: wgmma.mma_async "
                                                              "instructions are serialized"),
                             (REGISTERS, "(C7508) Potential Performance Loss: 'setmaxnreg' ignored")):
            with self.subTest(note):
                status, text, kept = self.compiled(source)
                self.assertEqual((status, kept), (1, None), text)
                self.assertRegex(text, r"cuflash: This note of ptxas is an error here: .*" + re.escape(note))

    def test_an_error_of_the_compiler(self):
        status, text, kept = self.compiled("no kernel")
        self.assertNotIn(status, (0, 1))
        self.assertIn("error", text)
        self.assertIsNone(kept)


if __name__ == "__main__":
    unittest.main()
