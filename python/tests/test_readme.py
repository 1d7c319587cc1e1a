"""The README's Python, run from top to bottom as a reader would, and what it promises."""
import pathlib
import re

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"
# The CPU simulator is slow: it gets fewer tokens, heads and steps.
SMALLER = {'"cuda"': '"cpu"', "1024": "9", "1025": "10", "2, 9, 8, 64": "2, 9, 4, 64",
           "2, 9, 8, 80": "2, 9, 2, 80",
           "2, 8, 9, 64": "2, 2, 9, 64", "randn(8, ": "randn(2, ", "range(100)": "range(15)"}


def blocks(device):
    """The README's Python for that device."""
    text = README.read_text(encoding="utf-8")
    if device == "cpu":
        for old, new in SMALLER.items():
            assert old in text, f"{README.name} has no {old}"
            text = text.replace(old, new)
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_every_snippet(device, capsys):
    names = {}
    for block in blocks(device):
        exec(block, names)  # pylint: disable=exec-used
    assert names["q"].grad.shape == names["q"].shape
    assert names["Q"].grad.shape == names["Q"].shape
    twins = [names[f"{name}80"].double().transpose(1, 2) for name in "qkv"]
    want = torch.nn.functional.scaled_dot_product_attention(*twins).transpose(1, 2)
    torch.testing.assert_close(names["out80"].double(), want, rtol=0, atol=5e-3)
    assert names["losses"][-1] < 0.8 * names["losses"][0]
    promised = re.search(r"print\(error\)  # (.*)", README.read_text(encoding="utf-8"))[1]
    assert capsys.readouterr().out == promised + "\n"
