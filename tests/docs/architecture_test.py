#!/usr/bin/env python3
"""docs/architecture.md is true: its paths exist, and files include no more than it allows."""
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/maintainer"))
from repository import ROOT, files  # noqa: E402, it lies there

PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
FILES = files()
CODE = re.compile(r"\.(h|inc|c|cpp|cu|cuh)$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)
ROW = re.compile(r"^\| `(\S+)` \| .* \| (.*) \|$", re.MULTILINE)
PATH = re.compile(r"(?:\w[\w.]*/)+[\w.]*|\w+\.(?:h|cpp|cuh?|py)\b")
OURS = ("api/", "cuflash/", "device/", "grader/", "harness/", "ladder/", "reference/", "simt/")
TABLE = {folder: re.findall(r"`(\S+/\S*)`", allowed) for folder, allowed in ROW.findall(PAGE)}


def text_of(file):
    """A file of the repository."""
    return (ROOT / file).read_text(encoding="utf-8")


def code_in(folder):
    """The sources below a folder."""
    return [file for file in FILES if file.startswith(folder + "/") and CODE.search(file)]


def strangers(folder):
    """(file, include) of each include of a project file outside the folder."""
    for file in code_in(folder):
        home = "/".join(file.split("/")[:2]) if folder == "stages" else folder  # a stage's is its own
        for include in INCLUDE.findall(text_of(file)):
            beside = (pathlib.Path(file).parent, pathlib.Path(file).parent.parent,  # of an exercise
                      pathlib.Path("common"), pathlib.Path(folder), pathlib.Path(folder) / "include")
            own = any((ROOT / at / include).is_file() and f"{at}/{include}".startswith(home + "/")
                      for at in beside if ".." not in include)
            if not own and (include.startswith(OURS) or ".." in include or ".cu" in include):
                yield file, include


class Architecture(unittest.TestCase):
    """Each sentence of the page that can be checked."""

    def test_paths_exist(self):
        folders = {str(folder) for file in FILES for folder in pathlib.Path(file).parents}
        for path in PATH.findall(PAGE.replace("NN_name", "01_naive")):
            with self.subTest(path=path):
                self.assertTrue(any(("/" + there).endswith("/" + path.rstrip("/"))
                                    for there in folders.union(FILES)), "there is no such path")

    def test_folders_include_what_the_table_allows(self):
        self.assertGreater(len(TABLE), 8, "the table of folders")
        for folder, allowed in TABLE.items():
            self.assertTrue(code_in(folder), folder)
            for file, include in strangers(folder):
                with self.subTest(file=file, include=include):
                    self.assertTrue(any(include == word or word.endswith("/") and
                                        include.startswith(word) for word in allowed), "not allowed")

    def test_stages(self):
        for file, include in strangers("stages"):
            with self.subTest(file=file, include=include):
                if include.startswith("harness/"):
                    self.assertEqual(pathlib.Path(file).name, "traffic.cu")
                if include.startswith("reference/"):
                    self.assertEqual(pathlib.Path(file).name, "reference.cpp")
        for folder in ("stages", "common/device"):
            for file in code_in(folder):
                self.assertNotRegex(text_of(file), r"CUFLASH_SIMT\b|__CUDACC__", file)

    def test_clients_of_the_library(self):
        for file in code_in("common/api"):
            self.assertNotIn("cuflash/flash_attention.h", INCLUDE.findall(text_of(file)), file)
        self.assertEqual(code_in("python"), code_in("python/operators"))

    def test_no_stage_is_known_by_name(self):
        for file in code_in("common") + code_in("bench"):
            code = re.sub(r"//.*", "", text_of(file))
            self.assertNotRegex(code, r'"0\d_|\b(naive|tiled|wmma)::k', file)

    def test_dtypes_are_listed_once(self):
        all_of_them = re.compile(r"\bf32\W+f16\W+bf16\b|_F32\W+CUFLASH_F16\W+CUFLASH_BF16\b|"
                                 r"\bfloat, __half, __nv_bfloat16\b")
        lists = [file for file in FILES if re.search(r"\.(h|cpp|cu|cuh|sh|py)$", file)
                 for _ in all_of_them.findall(re.sub(r"//.*", "", text_of(file)))]
        self.assertEqual(lists, ["common/device/instances.h", "python/cuflash/capi.py"])


if __name__ == "__main__":
    unittest.main()
