"""A build folder, and programs of it in which some objects are replaced by others."""
import json
import os
import re
import shlex
import subprocess

from repository import ROOT

NVCC = os.environ.get("CUDACXX", "nvcc")


class BuildError(Exception):
    """Something that must be compiled or linked, or that describes it, is wrong."""


def run(command, folder, problem):
    """The output of a command, a list or a line for the shell; `problem` says what its failure means."""
    done = subprocess.run(command, shell=isinstance(command, str), cwd=folder, text=True,
                          errors="surrogateescape",  # A path may have any bytes.
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise BuildError(f"{problem}:\n{done.stdout}")
    return done.stdout


def one_pass(text, direction):
    """The text of a stage.cu, reduced to the kernels of one pass."""
    other = "Forward" if direction == "backward" else "Backward"
    return re.sub(rf"{other}Kernels, \w+,", f"{other}Kernels, TypeList<>,", text)


def narrowed(text, direction, types, head_dims):
    """The text of a stage.cu, reduced to the kernels of one pass for some types and head dimensions."""
    text = one_pass(text, direction)
    text = re.sub(r"\b(EveryType|TensorCoreTypes)\b", f"TypeList<{', '.join(types)}>", text)
    return re.sub(r"\b(EveryHeadDim|UsualHeadDims)\b",
                  f"IntList<{', '.join(map(str, head_dims))}>", text)


def first_pass(text):
    """The forward pass, if the stage with this stage.cu has one, else the backward pass."""
    return "forward" if "stage.forward" in text else "backward"


class Build:
    """The folder build/PRESET with some of its programs: how they are compiled and linked."""

    def __init__(self, preset, programs):
        self.folder = ROOT / "build" / preset
        for command in (["cmake", "--preset", preset],
                        ["cmake", "--build", str(self.folder), "--target", *programs]):
            run(command, ROOT, "The sources do not compile as they are")
        listed = json.loads((self.folder / "compile_commands.json").read_text("utf-8", "surrogateescape"))
        self.compile = {}  # by object, its source and the command's words
        for entry in listed:
            words = shlex.split(entry["command"])
            self.compile[words[words.index("-o") + 1]] = entry["file"], words
        self.link = {program: self.ninja("-t", "commands", f"bin/{program}").splitlines()[-1]
                     for program in programs}
        self.objects = {program: self.ninja("-t", "inputs", f"bin/{program}").splitlines()
                        for program in programs}
        self.includes = {}  # of each object, the files
        for paragraph in self.ninja("-t", "deps").split("\n\n"):
            head, *files = paragraph.splitlines() or [""]
            self.includes[head.split(":")[0]] = {
                os.path.normpath(self.folder / file.strip()) for file in files}

    def ninja(self, *words):
        """The output of ninja in this folder."""
        return run(["ninja", *words], self.folder, "ninja failed")

    def objects_of(self, source):
        """The objects that are made of a source, a path from the root."""
        return [name for name, (file, _) in self.compile.items() if file == str(ROOT / source)]

    def compiled(self, name, source, to, *flags, headers=()):
        """Makes `to` as the object `name` is made, but of another source, with more flags, and with
        folders of headers that are searched first. Returns what the compiler printed."""
        original, words = self.compile[name]
        words = [{name: str(to), original: str(source)}.get(word, word) for word in words]
        first = next(n for n, word in enumerate(words) if word.startswith("-I"))
        words[first:first] = [f"-I{folder}" for folder in headers]
        return run([*words, *flags], self.folder, f"{source} does not compile")

    def linked(self, program, objects, to):
        """Links the program with other objects: `objects` says which takes the place of which. Those of
        an archive, and those in the place of None, are linked before the archives."""
        link, first = self.link[program], []
        for old, new in objects:
            new = shlex.quote(str(new))
            if old is not None and f" {old} " in link:
                link = link.replace(f" {old} ", f" {new} ")
            else:  # An archive's own object is then not used.
                first.append(new)
        run(link.replace(f"-o bin/{program}", f"{' '.join(first)} -o {shlex.quote(str(to))}"), self.folder,
            f"{to} cannot be linked")
