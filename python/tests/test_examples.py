"""The examples that use the package, in the small."""
import dataclasses
import hashlib
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load(path):
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


training = load("examples/train_char_gpt.py")


@pytest.fixture
def smoke(device, tmp_path, monkeypatch):
    """A function that trains for three steps and returns the exit status and the result."""
    def run(*options, out=tmp_path / "new/result.json"):
        monkeypatch.setattr(training, "OUT_OF_SMOKE", tmp_path / "new/result.json")
        monkeypatch.setattr(sys, "argv", ["train_char_gpt.py", "--smoke", "--device", device,
                                          *options])
        status = training.main()
        return status, json.loads(out.read_text(encoding="utf-8"))
    return run


def test_both_attentions_agree(device):
    qkv = [torch.randn(2, 9, 3, 32, device=device) for _ in range(3)]
    ours, sdpa = (training.ATTENTION[name](*qkv) for name in ("cuflash", "sdpa"))
    torch.testing.assert_close(ours, sdpa, rtol=0, atol=1e-4)


def test_training(smoke, capsys):
    status, result = smoke()
    assert status == 0
    assert "is 0.0" in capsys.readouterr().out.splitlines()[-1]
    assert {"device", "driver", "cuda", "torch", "commit", "command", "date"} <= set(
        result["provenance"])
    assert result["provenance"]["compiler"].startswith("g++ ")
    assert set(result["stages"]) == {"forward", "backward"}
    runs = result["runs"]
    assert [(run["attention"], run["seed"]) for run in runs] == [
        ("cuflash", 1), ("sdpa", 1), ("sdpa", 2)]
    ours, sdpa, second_seed = (run["losses"] for run in runs)
    assert ours == pytest.approx(sdpa, abs=0.01)  # bf16 knows three digits; losses are about 4
    assert abs(sdpa[-1] - second_seed[-1]) > 0.05  # other weights, other batches
    assert sdpa[0] == pytest.approx(math.log(65), abs=0.2)  # nothing is learnt yet


def test_a_difference_above_the_spread(smoke, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(training, "train", lambda config, attentions, device: [
        {"attention": name, "seed": seed, "losses": [3.0 if name == "cuflash" else 1.0 / seed] * 3}
        for name, seed in attentions])
    status, result = smoke("--out", str(tmp_path / "own.json"), out=tmp_path / "own.json")
    assert status == 1
    assert result["verdict"] == {"difference": 2.0, "spread": 0.5, "ok": False}
    assert capsys.readouterr().out.endswith("NOT BELOW IT\n")


def test_a_loss_that_is_not_finite(smoke, monkeypatch):
    right = training.ATTENTION["cuflash"]
    tiny = dataclasses.replace(training.SMOKE, layers=1, heads=1, context=4, batch=1)
    monkeypatch.setattr(training, "SMOKE", tiny)
    monkeypatch.setitem(training.ATTENTION, "cuflash", lambda *qkv: right(*qkv) * float("nan"))
    with pytest.raises(SystemExit, match="cuflash, seed 1: not every loss is finite"):
        smoke()


def test_verdict():
    found = training.verdict(2, [9, 1.0, 2.0], [0, 1.5, 1.5], [0, 1.0, 3.0])
    assert found == {"difference": 0.5, "spread": 1.0, "ok": True}
    found = training.verdict(2, [9, 1.0, 2.0], [0, 1.5, 1.5], [0, 1.0, 2.0])
    assert found == {"difference": 0.5, "spread": 0.5, "ok": False}


def test_all_runs_take_all_steps_by_turns(capsys):
    config = dataclasses.replace(training.SMOKE, steps=5, untimed=1, turn=2)
    training.train(config, [("sdpa", 1), ("sdpa", 2)], "cpu")
    turns = [line.split(", loss")[0] for line in capsys.readouterr().out.splitlines()]
    assert turns == ["sdpa, seed 1: step 3", "sdpa, seed 2: step 3", "sdpa, seed 2: step 5",
                     "sdpa, seed 1: step 5"]


def test_seed_decides_batches():
    config = training.SMOKE
    text, characters = training.load_text("cpu")
    assert characters == 65
    first, again, other = ([x.tolist() for x, _ in training.batches(text, config, seed)]
                           for seed in (1, 1, 2))
    assert first == again != other
    x, targets = next(training.batches(text, config, 1))
    assert x.shape == targets.shape == (config.batch, config.context)
    assert x[:, 1:].equal(targets[:, :-1])


def test_learning_rate():
    config = training.Config()
    rates = [training.learning_rate(config, step) for step in range(config.steps)]
    top = rates.index(max(rates))
    assert max(rates) == config.rate
    assert rates[:top + 1] == sorted(rates[:top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] == pytest.approx(config.rate / 10, rel=0.01)


def test_text_is_the_one_that_its_readme_names():
    readme = (training.TEXT.parent / "README.md").read_text(encoding="utf-8")
    assert hashlib.sha256(training.TEXT.read_bytes()).hexdigest() in readme


@pytest.mark.parametrize("script", ["examples/train_char_gpt.py", "examples/profile_attention.py"])
def test_refuses_to_time_the_cpu_simulator(script):
    done = subprocess.run([sys.executable, ROOT / script, "--device", "cpu"], capture_output=True,
                          text=True, check=False)
    assert done.returncode != 0 and done.stdout == ""
    assert "CPU simulator" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("script", ["examples/train_char_gpt.py", "examples/profile_attention.py"])
def test_without_a_gpu(script):
    done = subprocess.run([sys.executable, ROOT / script], capture_output=True, text=True,
                          env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=False)
    assert done.returncode != 0 and done.stdout == ""
    assert done.stderr.startswith("PyTorch finds no GPU") and done.stderr.count("\n") == 1


@pytest.mark.gpu
def test_profile():
    done = subprocess.run([sys.executable, ROOT / "examples/profile_attention.py", "--seq", "64"],
                          capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()[2:]]
    passes = [line[:2] for line in lines if len(line) == 5]
    assert ["03_online_softmax", "forward"] in passes and ["03_online_softmax", "backward"] in passes
    assert all(line[2].startswith("cuflash::") and float(line[3]) > 0 for line in lines
               if line[:2] == ["03_online_softmax", "forward"])
