"""The code that the consumer's steps share."""
import os
import re
import shlex
import subprocess
import sys

SKIPPED = 77


def skip(why):
    print(f"Skipped: {why}")
    sys.exit(SKIPPED)


def run(command, **options):
    """Runs a command and returns its output; if the command fails, so does this program."""
    command = [str(word) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode:
        sys.exit(f"{shlex.join(command)}\nfailed ({done.returncode}):\n{done.stdout}")
    return done.stdout


def outside():
    """The environment without search paths that would show a compiler more than the prefix."""
    hidden = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH")
    return {name: value for name, value in os.environ.items() if name not in hidden}


def version(prefix):
    """MAJOR, MINOR and PATCH of the installed version.h."""
    text = (prefix / "include/cuflash/version.h").read_text(encoding="utf-8")
    return [int(re.search(rf"define CUFLASH_VERSION_{part} (\d+)", text)[1])
            for part in ("MAJOR", "MINOR", "PATCH")]


def declared(prefix):
    """The functions that c_api.h declares."""
    text = (prefix / "include/cuflash/c_api.h").read_text(encoding="utf-8")
    code = re.sub(r"//.*|/\*.*?\*/|^#.*", "", text, flags=re.MULTILINE)
    return set(re.findall(r"\b(\w+)\([^;{]*\);", code))


def exported(lib):
    """The symbols that a shared library defines for others."""
    return {line.split()[-1] for line in run(["nm", "-D", "--defined-only", lib]).splitlines()}


def library(prefix):
    """The installed shared library, by the name that a linker looks for."""
    found = sorted(prefix.glob("lib*/**/libcuflash_attn.so"))
    if len(found) != 1:
        sys.exit(f"not one libcuflash_attn.so under {prefix}: {found}")
    return found[0]
