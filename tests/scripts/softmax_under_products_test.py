#!/usr/bin/env python3
"""The softmax of a tile stands before the wait for the product that it is to run under.

    tests/scripts/softmax_under_products_test.py

Compiles each stage that overlaps them for 90a, in f16 with head_dim 64 and 128, and counts the
exponentials between the wait for S and the wait for O, or in a backward pass for dP. Needs nvcc and
cuobjdump, and no GPU.
"""
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/maintainer"))
import builds  # noqa: E402, they lie there
import machine_code  # noqa: E402

WAIT_FOR_NEXT = re.compile(r"ptx::wgmma_wait<(1|kWantsDs)>\(\);  // S is there")
STAGES, BACKWARD_STAGES = ([file.parent for file in sorted(ROOT.glob(f"stages/[0-8]?_*/{name}"))
                            if WAIT_FOR_NEXT.search(file.read_text(encoding="utf-8"))]
                           for name in ("kernel.cuh", "kernel_bwd.cuh"))
LOOPS = 2  # with a mask and without
KEYS = {64: 128, 128: 64}  # of a tile, by head_dim; a thread has half as many exponentials
FIRST_AND_LOOP = 2  # the backward pass has its first tile apart
QUERIES = {64: 128, 128: 64}  # of a tile of the backward pass, for 64 keys of a consumer


def under_products(code):
    """How many exponentials stand between each wait for S and the wait for O that follows it."""
    counts, count = [], None
    for instruction in code:
        if instruction.name == "WARPGROUP.DEPBAR.LE":
            if count is not None:
                counts.append(count)
            count = 0 if instruction.operands == "gsb0, 0x1" else None
        elif count is not None and instruction.name == "MUFU.EX2":
            count += 1
    return counts


class SoftmaxUnderProducts(unittest.TestCase):
    """Machine code of stages whose softmax runs under a product."""

    def test_counts(self):
        lines = ["WARPGROUP.DEPBAR.LE gsb0, 0x1", "MUFU.EX2 R1, R1", "FADD R1, R1, R1",
                 "MUFU.EX2 R2, R2", "WARPGROUP.DEPBAR.LE gsb0, 0x0", "MUFU.EX2 R3, R3"]
        text = "".join(f"        /*{16 * n:04x}*/  {line} ;\n" for n, line in enumerate(lines))
        self.assertEqual(under_products(machine_code.instructions(text)), [2])

    @unittest.skipUnless(shutil.which(builds.NVCC) and shutil.which("cuobjdump"), "needs nvcc, cuobjdump")
    def test_stages(self):
        self.assertTrue(STAGES)
        for stage in STAGES:
            with self.subTest(stage=stage.name), tempfile.TemporaryDirectory() as folder:
                built = pathlib.Path(folder, "stage.cubin")
                builds.cubin(stage, list(KEYS), built)
                kernels = list(machine_code.kernels(built))
                self.assertEqual(len(kernels), 2)
                for name, code in kernels:
                    head_dim = int(re.search(r"Li(\d+)E", name)[1])
                    counts = under_products(code)
                    self.assertEqual(len(counts), LOOPS, name)
                    self.assertGreaterEqual(min(counts), KEYS[head_dim] // 2, f"{name}: {counts}")

    @unittest.skipUnless(shutil.which(builds.NVCC) and shutil.which("cuobjdump"), "needs nvcc, cuobjdump")
    def test_backward_stages(self):
        self.assertTrue(BACKWARD_STAGES)
        for stage in BACKWARD_STAGES:
            for head_dim, queries in QUERIES.items():
                with self.subTest(stage=stage.name, head_dim=head_dim), \
                        tempfile.TemporaryDirectory() as folder:
                    built = pathlib.Path(folder, "stage.cubin")
                    builds.cubin(stage, [head_dim], built)
                    counts = [count for _, code in machine_code.kernels(built)
                              for count in under_products(code) if count]
                    self.assertEqual(counts, [queries // 2] * FIRST_AND_LOOP)


if __name__ == "__main__":
    unittest.main()
