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
# 32 values at once do not fit into 24 registers.
SPILLS = """
__global__ void spills(float* x) {
  float v[32];
  for (int i = 0; i < 32; ++i) v[i] = x[i * blockDim.x + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < 32; ++i) x[i * blockDim.x + threadIdx.x] = v[31 - i] * v[i];
}
"""

class PtxasNotes(unittest.TestCase):
    """What the program does with the notes for a source."""
    kept = None  # what ptxas says of the last one's kernels

    def compiled(self, source, injected, spilled, *flags):
        """The exit status, what is on stderr, and whether there is an object."""
        with tempfile.TemporaryDirectory() as folder:
            file, built = pathlib.Path(folder, "kernel.cu"), pathlib.Path(folder, "kernel.o")
            file.write_text(source)
            run = subprocess.run(
                [ROOT / "scripts/maintainer/ptxas_notes.py", str(injected), str(spilled), NVCC, "-c",
                 file, *flags,
                 "--generate-code=arch=compute_90a,code=sm_90a", "-o", built],
                stderr=subprocess.PIPE, text=True)
            kept = built.with_name("kernel.o.ptxas")
            self.kept = kept.read_text() if kept.exists() else None
            return run.returncode, run.stderr, built.exists()

    def passes(self, source, injected=0, spilled=0, *flags):
        status, text, built = self.compiled(source, injected, spilled, *flags)
        self.assertEqual((status, built), (0, True), text)
        self.assertNotIn("cuflash: ", text)
        self.assertNotIn("bytes stack frame", text)

    def fails(self, sentence, source, injected=0, spilled=0, *flags):
        status, text, built = self.compiled(source, injected, spilled, *flags)
        self.assertEqual((status, built), (1, False), text)
        self.assertIn(sentence, text)

    def test_no_note(self):
        self.passes(PRODUCT % "")

    def test_injected_waits_are_counted(self):
        touched = PRODUCT % "d[0] *= 2;"
        self.passes(touched, 1)
        for stated in 0, 2:
            self.fails(f"injected 1 waits and arrives between the products of warpgroups (C7517, "
                       f"C7519); stages/CMakeLists.txt states {stated}.", touched, stated)

    def test_serialised_products(self):
        self.fails("(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized",
                   PRODUCT % 'printf("between");')

    def test_ignored_registers(self):
        self.fails("(C7508) Potential Performance Loss: 'setmaxnreg' ignored", REGISTERS)

    def test_spills_are_counted(self):
        flags = "-Xptxas=-v", "-maxrregcount=24"
        _, text, _ = self.compiled(SPILLS, 0, 0, *flags)
        spilled = int(re.search(r"A kernel spills (\d+) bytes; .* states 0\.", text)[1])
        self.passes(SPILLS, 0, spilled, *flags)
        self.fails(f"A kernel spills {spilled} bytes; stages/CMakeLists.txt states {spilled + 4}.",
                   SPILLS, 0, spilled + 4, *flags)

    def test_what_ptxas_says_of_each_kernel_is_kept(self):
        self.passes(PRODUCT % "", 0, 0, "-Xptxas=-v")
        self.assertRegex(self.kept, r"Compiling entry function '\w*product\w*' for 'sm_90a'\n"
                                    r"(?s:.*) 0 bytes spill stores(?s:.*)Used \d+ registers")

    def test_an_error_of_the_compiler(self):
        status, text, built = self.compiled("no kernel", 0, 0)
        self.assertNotIn(status, (0, 1))
        self.assertIn("error", text)
        self.assertFalse(built)


if __name__ == "__main__":
    unittest.main()
