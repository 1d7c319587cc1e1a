#!/usr/bin/env python3
"""Checks the registers of products of warpgroups (wgmma) in machine code.

    scripts/maintainer/wgmma_registers.py PROGRAM...

reads the machine code of programs and libraries with cuobjdump, of the CUDA toolkit; it needs no
GPU. A product, HGMMA, runs on after it is issued:

    HGMMA.64x64x16.F32 R56, R24, gdesc[UR12].tnspB, R56, gsb0    D = R56 to R87, A = R24 to R27
    WARPGROUP.DEPBAR.LE gsb0, 0x0                                waits until no group is running

gsb0 ends a group of products. Until the wait that covers its group, nothing may read or write the
registers of D, and nothing may write those of A. ptxas has to see to that, and versions up to 13.2
may write A's. The check follows every path through a kernel, and names each instruction that breaks
the rule. Prints a line for each fault, and exits with 1 if there is one, or if a program has no product.
"""
import re
import sys
from typing import NamedTuple

import machine_code

# Registers of an operand by a word of the instruction's name.
WIDTHS = {"64": 2, "F64": 2, "F32x2": 2, "2": 2, "128": 4, "F32x4": 4, "4": 4}
DOUBLES = ("DADD", "DFMA", "DMUL", "DSETP")
REGISTER = re.compile(r"(?<![A-Z])R(\d+)(\.64)?")
# Their result comes after a predicate.
RESULT_IS_SECOND = ("ATOM", "MATCH", "SHFL")
PRODUCT = re.compile(r"HGMMA\.64x(\d+)x\d+\.(F16|F32)")
ENDS = ("EXIT", "RET", "KILL")
# A branch that all threads take, unless it has a predicate.
PLAIN_BRANCH = re.compile(r"BRA 0x")
INSTRUCTION_BYTES = 16
MOST_GROUPS = 8  # that run at a time


class Product(NamedTuple):
    """The registers that a product uses while it runs."""
    address: int
    d: range
    a: range


def registers_of(operand, width):
    """The registers in the text of an operand, one of `width` registers unless it is an address."""
    address = "[" in operand
    for number, double in REGISTER.findall(operand):
        first = int(number)
        yield from range(first, first + (1 + bool(double) if address else width))


def touched_by(instruction):
    """The registers that an instruction uses, and those of them that it writes."""
    operands = instruction.operands.split(", ")
    kind, *words = instruction.name.split(".")
    width = max((WIDTHS.get(word, 1) for word in words), default=1)
    if kind in DOUBLES or (kind == "CS2R" and "32" not in words):
        width = 2
    if kind == "HMMA":
        width = 4
    widths = [width] * len(operands)
    if "WIDE" in words:  # the result and the addend, not the factors
        widths = [2 if place in (0, 3) else 1 for place in range(len(operands))]
    used = [set(registers_of(*pair)) for pair in zip(operands, widths)]
    place = 1 if kind.startswith(RESULT_IS_SECOND) and re.match("!?P", operands[0]) else 0
    written = used[place] if place < len(used) and "[" not in operands[place] else set()
    return set().union(*used), written


def product_of(instruction):
    """The product that an instruction issues, or None."""
    shape = PRODUCT.match(instruction.name)
    if not shape:
        return None
    operands = instruction.operands.split(", ")
    columns, dtype = int(shape[1]), shape[2]
    d, a = int(operands[0][1:]), re.fullmatch(r"R(\d+)", operands[1])
    return Product(instruction.address, range(d, d + columns // (2 if dtype == "F32" else 4)),
                   range(int(a[1]), int(a[1]) + 4) if a else range(0))


def next_addresses(instruction):
    """Where the kernel may go on after an instruction."""
    text = f"{instruction.name} {instruction.operands}"
    if re.match(r"BRX|JMP|JMX", text):
        raise ValueError(f"{instruction.address:04x}: a branch that this check cannot follow: {text}")
    if not instruction.predicate:
        if instruction.name.startswith(ENDS):
            return []
        if PLAIN_BRANCH.match(text):
            return [instruction.target()]
    target, after = instruction.target(), instruction.address + INSTRUCTION_BYTES
    return [after] if target is None else [after, target]


def conflicts(instruction, running):
    """What an instruction does to the registers of the products that are running."""
    used, written = touched_by(instruction)
    issued = product_of(instruction)
    if issued:
        used, written = {*issued.d, *issued.a}, {*issued.d}
    for product in running:
        if used.intersection(product.d) and not (
                issued and issued.d == product.d and not {*issued.a}.intersection(product.d)):
            yield f"uses the result of the product at {product.address:04x} before its wait"
        if written.intersection(product.a):
            yield f"writes A of the product at {product.address:04x} before its wait"
    if running and instruction.name.startswith("CALL"):
        yield "a call while products are running"


def run(instruction, groups):
    """The groups of products that run after an instruction. The last has not ended."""
    issued = product_of(instruction)
    if issued:
        groups = *groups[:-1], groups[-1] | {issued}
        if "gsb0" in instruction.operands:
            groups = *groups, frozenset()
    elif instruction.name.startswith("WARPGROUP.DEPBAR"):
        pending = int(instruction.operands.split(", ")[1], 16)
        groups = groups[-(pending + 1):]
    return groups


def states(code):
    """(instruction, groups of products that run before it) for every path through a kernel."""
    place = {instruction.address: instruction for instruction in code}
    seen, todo = set(), [(code[0].address, (frozenset(),))]
    while todo:
        address, groups = state = todo.pop()
        if state in seen or address not in place:  # what follows the kernel's last instruction
            continue
        seen.add(state)
        instruction = place[address]
        yield instruction, groups
        if len(groups) <= MOST_GROUPS:
            groups = run(instruction, groups)
            todo += [(to, groups) for to in next_addresses(instruction)]


def faults(code):
    """Sentences about a kernel's instructions, none if it is right."""
    found = set()
    for instruction, groups in states(code):
        where = f"{instruction.address:04x} {instruction.name} {instruction.operands}"
        running = sorted(frozenset().union(*groups))
        found.update(f"{where}: {what}" for what in conflicts(instruction, running))
        if len(groups) > MOST_GROUPS:
            found.add(f"{where}: products are issued in a loop, and never waited for")
    return sorted(found)


def kernels(program):
    """(mangled name, instructions) of each kernel of a program that has products."""
    return [(name, code) for name, code in machine_code.kernels(program, "-arch=sm_90a")
            if any(map(product_of, code))]


def main():
    if not sys.argv[1:]:
        sys.exit(__doc__)
    status = 0
    for program in sys.argv[1:]:
        found = kernels(program)
        if not found:
            sys.exit(f"{program} has no products of warpgroups")
        for name, code in found:
            for sentence in faults(code):
                print(f"{name}\n  {sentence}")
                status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
