#!/usr/bin/env python3
"""Tiles of another size: if they cannot work, one line of the compiler's output names the stage's
own file and says what can work. g++ only checks the syntax here.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILE = ["g++", "-std=c++17", "-fsyntax-only", "-w", "-xc++", "-DCUFLASH_SIMT",
           *(f"-I{ROOT}/common{folder}" for folder in ("/simt/include", "", "/include"))]
Q, KV, OWNED, STREAMED = (f"int {name} = " for name in ("kBlockQ", "kBlockKV", "kOwned", "kStreamed"))
# A stage and its file, a constant and its new value, and the file and text of the failed assertion.
REFUSED = [
    ("02_tiled", "kernel", KV, "64", "kernel.cuh", "kBlockKV is 32"),
    ("02_tiled", "kernel", Q, "36", "kernel.cuh", "kBlockQ is a multiple of 8"),
    ("02_tiled", "kernel", Q, "96", "stage.cu", "64 KB hold a kBlockQ of up to 88"),
    ("03_online_softmax", "kernel", KV, "64", "kernel.cuh", "kBlockKV is 32"),
    ("03_online_softmax", "kernel", Q, "36", "kernel.cuh", "kBlockQ is a multiple of 8"),
    ("03_online_softmax", "kernel", Q, "64", "stage.cu", "64 KB hold a kBlockQ of up to 48"),
    ("03_online_softmax", "kernel_bwd", STREAMED, "64", "kernel_bwd.cuh", "kStreamed is 32"),
    ("03_online_softmax", "kernel_bwd", OWNED, "20", "kernel_bwd.cuh", "kOwned is a multiple of 8"),
    ("03_online_softmax", "kernel_bwd", OWNED, "32", "stage.cu", "64 KB hold a kOwned of up to 24"),
    ("04_register_tiles", "kernel", Q, "72", "kernel.cuh", "kBlockQ is a multiple of 16"),
    ("04_register_tiles", "kernel", KV, "40", "kernel.cuh", "kBlockKV is a multiple of 16"),
    ("04_register_tiles", "kernel", Q, "128", "stage.cu", "64 KB hold kBlockQ x kBlockKV of 64 x 32"),
    ("04_register_tiles", "kernel_bwd", OWNED, "40", "kernel_bwd.cuh", "kOwned is a multiple of 16"),
    ("04_register_tiles", "kernel_bwd", STREAMED, "8", "kernel_bwd.cuh", "kStreamed is a multiple of 16"),
    ("04_register_tiles", "kernel_bwd", OWNED, "64", "stage.cu", "64 KB hold kOwned x kStreamed of 32 x 16"),
    ("05_wmma", "kernel", Q, "48", "kernel.cuh", "kBlockQ is 16, 32, 64 or 128"),
    ("05_wmma", "kernel", KV, "48", "kernel.cuh", "kBlockKV is 16, 32, 64 or 128"),
    ("05_wmma", "kernel", KV, "16", "kernel.cuh", "kBlockQ is at most kBlockKV * kHeadDim / 16"),
    ("05_wmma", "kernel", KV, "64", "stage.cu", "64 KB hold kBlockQ x kBlockKV of 64 x 32, 128 x 16"),
    ("06_forward_backward", "kernel", KV, "64", "stage.cu", "64 KB hold kBlockQ x kBlockKV of 64 x 32"),
    ("06_forward_backward", "kernel_bwd", OWNED, "48", "kernel_bwd.cuh", "kOwned is 16, 32, 64 or 128"),
    ("06_forward_backward", "kernel_bwd", STREAMED, "48", "kernel_bwd.cuh", "kStreamed is 16, 32, 64"),
    ("06_forward_backward", "kernel_bwd", OWNED, "16", "kernel_bwd.cuh", "kStreamed is at most 2 kOwned"),
    ("06_forward_backward", "kernel_bwd", STREAMED, "16", "kernel_bwd.cuh", "kOwned is at most kStreamed"),
    ("06_forward_backward", "kernel_bwd", STREAMED, "64", "stage.cu", "64 KB hold kOwned x kStreamed of 64 x 32"),
    ("07_mma_registers", "kernel", Q, "48", "kernel.cuh", "kBlockQ is 16, 32, 64 or 128"),
    ("07_mma_registers", "kernel", KV, "40", "kernel.cuh", "kBlockKV is a multiple of 16"),
    ("07_mma_registers", "kernel", KV, "160", "stage.cu", "99 KB hold kBlockQ x kBlockKV of 128 x 64"),
    ("08_swizzle", "kernel", KV, "48", "kernel.cuh", "kBlockKV is a multiple of kPart"),
    ("08_swizzle", "kernel", KV, "128", "stage.cu", "99 KB hold kBlockQ x kBlockKV of 128 x 64"),
]


def complaints(row):
    """The compiler's output for a copy of the stage with this value."""
    stage, file, constant, value, *_ = row
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, "stages", stage)
        shutil.copytree(ROOT / "stages" / stage, copy)
        kernel = copy / f"{file}.cuh"
        before, after = kernel.read_text("utf-8").split(constant, 1)
        kernel.write_text(before + constant + value + after[after.index(";"):], "utf-8")
        return subprocess.run([*COMPILE, f"stages/{stage}/stage.cu"], cwd=folder, text=True,
                              capture_output=True, check=False).stderr


class TileValues(unittest.TestCase):
    def test_what_works_is_said(self):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for row, said in zip(REFUSED, pool.map(complaints, REFUSED)):
                stage, _, _, _, place, sentence = row
                with self.subTest(row):
                    line = f"(?m)^stages/{stage}/{place}:.*static assertion failed: "
                    self.assertRegex(said, line + re.escape(sentence))


if __name__ == "__main__":
    unittest.main()
