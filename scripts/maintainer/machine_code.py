"""The machine code (SASS) of kernels, as cuobjdump prints it."""
import re
import subprocess
from typing import NamedTuple

INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?(\S+?)(?:\s+(.*?))?\s*;",
                         re.MULTILINE)
TARGET = re.compile(r"0x([0-9a-f]+)$")


class Instruction(NamedTuple):
    """A line of a kernel's code."""
    address: int
    predicate: str  # without "@"; empty if the instruction has none
    name: str
    operands: str

    def target(self):
        """The address to which a branch goes, or None."""
        found = TARGET.search(self.operands) if self.name.startswith("BRA") else None
        return int(found[1], 16) if found else None


def instructions(text):
    """The instructions of a listing."""
    return [Instruction(int(at, 16), *rest) for at, *rest in INSTRUCTION.findall(text)]


def kernels(program, *options):
    """(mangled name, its instructions) of each kernel of a file with device code. The options are
    cuobjdump's, such as "-arch=sm_90a"."""
    sass = subprocess.run(["cuobjdump", "-sass", *options, program], check=True,
                          capture_output=True, text=True).stdout
    for code in sass.split("Function : ")[1:]:
        name, _, listing = code.partition("\n")
        yield name.strip(), instructions(listing)
