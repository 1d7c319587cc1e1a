"""The origin of a measurement's figures, and the file that holds them."""
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def output_of(*command):
    """The output of a command, or nothing if it fails or does not exist."""
    try:
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def commit_of_sources():
    """The commit of the sources, as the ladder states it: CUFLASH_COMMIT if that is set."""
    if os.environ.get("CUFLASH_COMMIT"):
        return os.environ["CUFLASH_COMMIT"]
    commit = output_of("git", "rev-parse", "--short", "HEAD")
    if not commit:
        return "unknown"
    return commit + ("-dirty" if output_of("git", "status", "--porcelain") else "")


def compiler_of(library):
    """The compiler of the library, as the library's file states it."""
    found = re.search(rb"cuflash was compiled with ([^\0]+)\0", library.read_bytes())
    return found[1].decode() if found else "unknown"


def now():
    """The time now: UTC, ISO 8601."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def of_gpu(torch):
    """The current GPU: device, driver, cuda, backend and clocks."""
    smi = output_of("nvidia-smi", "--query-gpu=driver_version,clocks.max.sm,clocks.max.memory",
                    "--format=csv,noheader").splitlines()
    driver, sm_clock, memory_clock = smi[0].split(", ") if smi else ["unknown"] * 3
    return {"device": torch.cuda.get_device_name(), "driver": driver, "cuda": torch.version.cuda,
            "backend": "cuda", "clocks": f"at most {sm_clock} (SM), {memory_clock} (memory)"}


def of_cpu():
    """The same keys for a machine without a GPU, whose times mean nothing."""
    return {"device": f"CPU simulator on {platform.machine()}", "driver": "none", "cuda": "none",
            "backend": "simt", "clocks": "none"}


def provenance(torch, library, device="cuda"):
    """The ladder's keys, and PyTorch's versions. `library` is the path of a libcuflash_attn.so,
    `device` is the type of the tensors' device."""
    cudnn = torch.backends.cudnn.version() or 0
    return {
        **(of_gpu(torch) if device == "cuda" else of_cpu()),
        "compiler": compiler_of(library), "torch": torch.__version__,
        "cudnn": f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}",
        "commit": commit_of_sources(), "command": " ".join(sys.argv), "date": now(),
    }


def rounded(value):
    """The value with seven digits of each float, more than a measurement has."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(inner) for inner in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def json_text(value, levels=2):
    """JSON with one line per entry of a result, and per entry of these, such as a row."""
    if not levels or not value or not isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if isinstance(value, list):
        return "[\n" + ",\n".join(json_text(one, levels - 1) for one in value) + "\n]"
    entries = (f'"{name}":{json_text(one, levels - 1)}' for name, one in value.items())
    return "{\n" + ",\n".join(entries) + "\n}"


def save(path, result):
    """Writes the whole file or nothing."""
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json_text(rounded(result)) + "\n", encoding="utf-8")
    unfinished.replace(path)
