#!/usr/bin/env python3
"""Is the suite any good? Puts one fault after the other into the kernels; the tests must catch each.

    scripts/test.sh mutations [--list] [WORD...]

Takes the faults of tests/mutations.ini, or those whose name or file contains one of the words. Works
on a copy of the sources in a temporary folder, built for the CPU machine; this checkout stays as it
is. First the tests must pass without a fault. Then each fault must make one of its tests fail, for
the reason that the list states. The exit status is 0 only if every fault is caught.
"""
import argparse
import configparser
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from sources import ROOT, copy_sources

LIST = pathlib.Path("tests/mutations.ini")
LIMIT_S = 600  # of a run of the tests: a fault can make a kernel hang


@dataclasses.dataclass
class Mutation:
    name: str
    file: str
    line: str
    becomes: str
    tests: str
    caught_by: str

    def applied_to(self, text):
        """The file's text with the fault in it."""
        lines = text.split("\n")
        found = [n for n, line in enumerate(lines) if line.strip() == self.line]
        if len(found) != 1:
            times = f"{len(found)} times" if found else "no longer"
            raise ListError(f"[{self.name}] {self.file} holds this line {times}:\n    {self.line}\n"
                            f"  It must be there exactly once: bring {LIST} up to date.")
        old = lines[found[0]]
        lines[found[0]] = old[: len(old) - len(old.lstrip())] + self.becomes
        return "\n".join(lines)


class ListError(Exception):
    """An entry of the list is wrong, which says nothing about the tests."""


def read_list():
    parser = configparser.ConfigParser(delimiters="=", comment_prefixes="#", interpolation=None)
    try:
        parser.read_string((ROOT / LIST).read_text(encoding="utf-8"), str(LIST))
    except configparser.Error as error:
        raise ListError(error) from error
    mutations = []
    for name in parser.sections():
        try:
            mutation = Mutation(name, **parser[name])
            mutation.applied_to((ROOT / mutation.file).read_text(encoding="utf-8"))
            re.compile(mutation.caught_by)
        except (TypeError, OSError, re.error) as error:
            raise ListError(f"{LIST}: [{name}] {error}") from error
        mutations.append(mutation)
    return mutations


class Suite:
    """The tests of a copy of the sources."""

    def __init__(self, copy):
        self.copy = copy
        self.program = copy / "build/simt/bin/cuflash_tests"

    def build(self):
        """Returns what went wrong, or nothing."""
        commands = [["cmake", "--build", "build/simt", "--target", "cuflash_tests"]]
        if not self.program.exists():
            commands.insert(0, ["cmake", "--preset", "simt"])
        for command in commands:
            done = subprocess.run(command, cwd=self.copy, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, check=False)
            if done.returncode != 0:
                return done.stdout
        return ""

    def has(self, tests):
        """GoogleTest is content with a filter that matches nothing."""
        return subprocess.run([self.program, "--gtest_list_tests", f"--gtest_filter={tests}"],
                              check=True, capture_output=True).stdout.strip() != b""

    def failure(self, tests, wanted=""):
        """The output of a process that failed, or "": one that matches `wanted` if there is any.

        The tests are shared out to one process a core, each of which stops at its first failure.
        """
        shards = len(os.sched_getaffinity(0))
        running, failed = [], ""
        deadline = time.monotonic() + LIMIT_S
        try:
            for shard in range(shards):
                output = open(self.copy / f"shard{shard}", "w+", encoding="utf-8", errors="replace")
                running.append((output, subprocess.Popen(
                    [self.program, "--gtest_brief=1", "--gtest_fail_fast",
                     f"--gtest_filter={tests}"],
                    env={**os.environ, "GTEST_TOTAL_SHARDS": str(shards),
                         "GTEST_SHARD_INDEX": str(shard)},
                    cwd=self.copy, stdout=output, stderr=subprocess.STDOUT)))
            waiting = list(running)
            while waiting:
                time.sleep(0.01)
                for output, process in [w for w in waiting if w[1].poll() is not None]:
                    waiting.remove((output, process))
                    if process.returncode == 0:
                        continue
                    output.seek(0)
                    # Without the tests that --gtest_fail_fast skips after the first failure.
                    failed = re.sub(r".*: Skipped\n+", "", output.read())
                    failed += f"(exit status {process.returncode})\n"
                    if re.search(wanted, failed):
                        return failed
                if time.monotonic() > deadline:
                    return f"The tests had not ended after {LIMIT_S} s.\n"
            return failed
        finally:
            for output, process in running:
                process.kill()
                process.wait()
                output.close()


def verdict(suite, mutation):
    """What became of one fault: a word, and what the tests said."""
    path = suite.copy / mutation.file
    original = path.read_text(encoding="utf-8")
    path.write_text(mutation.applied_to(original), encoding="utf-8")
    try:
        errors = suite.build()
        if errors:
            raise ListError(f"[{mutation.name}] does not compile:\n{errors}")
        output = suite.failure(mutation.tests, mutation.caught_by)
    finally:
        path.write_text(original, encoding="utf-8")
    reason = re.search(mutation.caught_by, output)
    if reason:
        return "caught", reason[0]
    return ("MISTAKEN", output[:4000]) if output else ("SURVIVED", f"{mutation.tests} passes")


def try_all(mutations, suite):
    """Prints a line for each. Were all caught?"""
    begin = time.monotonic()
    errors = suite.build()
    if errors:
        raise ListError(f"The sources do not compile, even without a fault:\n{errors}")
    for mutation in mutations:
        if not suite.has(mutation.tests):
            raise ListError(f"[{mutation.name}] There is no test {mutation.tests}.")
    output = suite.failure(":".join(dict.fromkeys(m.tests for m in mutations)))
    if output:
        raise ListError(f"A test fails, even without a fault:\n{output}")
    print(f"passes   {time.monotonic() - begin:5.1f} s  the tests, without a fault", flush=True)

    caught = 0
    for mutation in mutations:
        start = time.monotonic()
        word, reason = verdict(suite, mutation)
        caught += word == "caught"
        seconds = time.monotonic() - start
        print(f"{word:8} {seconds:5.1f} s  {mutation.name}  ->  {reason}", flush=True)
    print(f"{caught} of {len(mutations)} caught in {time.monotonic() - begin:.0f} s")
    return caught == len(mutations)


def main():
    parser = argparse.ArgumentParser(prog="scripts/test.sh mutations", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the faults; build nothing")
    parser.add_argument("words", nargs="*", metavar="WORD", help="part of a fault's name or file")
    options = parser.parse_args()
    try:
        mutations = [m for m in read_list() if not options.words or
                     any(word in m.name or word in m.file for word in options.words)]
        if not mutations:
            words = " or ".join(options.words)
            raise ListError(f"No fault of {LIST} has {words} in its name or file.")
        if options.list:
            for mutation in mutations:
                print(f"{mutation.file:41} {mutation.name}")
            return 0
        with tempfile.TemporaryDirectory(prefix="cuflash_mutations_") as copy:
            copy_sources(pathlib.Path(copy))
            return 0 if try_all(mutations, Suite(pathlib.Path(copy))) else 1
    except ListError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
