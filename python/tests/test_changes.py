"""The autograd function of docs/how_to_change_it.md, against plain PyTorch; and the page's program."""
import pathlib
import re
import subprocess

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
PATCH = DOCS / "changes/autograd.patch"
PROGRAM = re.compile(r"<<'END'\n(.*?)END\n.*?```text\n(.*?)```", re.DOTALL)


def plain(q, k, v, scale):
    """Causal attention of as many queries as keys."""
    scores = scale * torch.einsum("bihd,bjhd->bhij", q, k)
    hidden = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(1)
    return torch.einsum("bhij,bjhd->bihd", scores.masked_fill(hidden, -torch.inf).softmax(-1), v)


def test_learned_scale(device, tmp_path, monkeypatch):
    subprocess.run(["git", "apply", str(PATCH)], cwd=tmp_path, check=True)
    monkeypatch.syspath_prepend(tmp_path / "examples")
    from learned_scale import LearnedScale  # pylint: disable=import-outside-toplevel,import-error
    torch.manual_seed(1)
    inputs = [torch.randn(2, 40, 3, 32, device=device, requires_grad=True) for _ in range(3)]
    inputs.append(torch.tensor(0.3, device=device, requires_grad=True))
    d_o = torch.randn(2, 40, 3, 32, device=device)
    got = torch.autograd.grad(LearnedScale.apply(*inputs), inputs, d_o)
    exact = [x.detach().double().requires_grad_() for x in inputs]
    want = torch.autograd.grad(plain(*exact), exact, d_o.double())
    for x, y in zip(got, want):
        torch.testing.assert_close(x.double(), y, rtol=1e-4, atol=1e-4 * float(y.abs().max()))


def test_program(device, tmp_path, monkeypatch, capsys):
    if device != "cpu":
        pytest.skip("The page's tensors are on the CPU")
    subprocess.run(["git", "apply", str(PATCH)], cwd=tmp_path, check=True)
    monkeypatch.syspath_prepend(tmp_path / "examples")
    program, shown = PROGRAM.search((DOCS / "how_to_change_it.md").read_text("utf-8")).groups()
    exec(program, {})  # pylint: disable=exec-used
    assert capsys.readouterr().out.splitlines()[-1] == shown.splitlines()[-1]
