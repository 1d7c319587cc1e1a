#!/usr/bin/env python3
"""Trains a small GPT on the characters of Shakespeare, with this library's attention and PyTorch's.

    pip install ./python
    python3 examples/train_char_gpt.py

Three runs: one with cuflash.flash_attn_func, one with scaled_dot_product_attention (SDPA) from
the same seed, and one with SDPA from a second seed. A seed decides the initial weights and which
windows of the text make up each batch; nothing else is random. So the first two runs begin with the
same weights, see the same batches in the same order, and differ in attention alone. (There is no
dropout, so the model memorises part of the text, which it sees about thirty times.) Over the last
100 steps,

    difference  is the mean of |loss with cuflash − loss with SDPA|, step by step, same seed
    spread      is the mean of |loss − loss|, step by step, of the two runs with SDPA

and the exit status is 1 unless the difference is below the spread. This shows only that training
takes the same course: a model also learns with a wrong softmax scale. The library's tests check
that attention is right. scripts/maintainer/loss_curve.py draws a figure from the JSON file.

The runs take turns of 45 steps, in another order each round, and the speed of a run is that of its
median turn: the CPU queues hardly faster than the GPU computes here, so whatever else the machine
does shows. A run's peak memory is that of its first steps, without what the runs before it hold.

Under autocast products are bf16, sums and weights float32; TF32 is off. bf16 has float32's range,
so there is no loss scaling and no step is skipped because a gradient overflowed, which could
separate two runs for a reason other than attention's accuracy. A repeated run may differ in the
last bits.
"""
import argparse
import dataclasses
import math
import pathlib
import sys
import time
from statistics import fmean, median

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import cuflash
from cuflash import capi, library

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from provenance import provenance, save  # noqa: E402, in bench/

OUT = pathlib.Path("build/results/train_char_gpt.json")
OUT_OF_SMOKE = pathlib.Path("build/results/train_char_gpt_smoke.json")
TEXT = ROOT / "examples/data/tiny_shakespeare.txt"


@dataclasses.dataclass(frozen=True)
class Config:
    """The model and its training."""
    layers: int = 6
    heads: int = 6
    head_dim: int = 64
    context: int = 512  # characters per sequence
    batch: int = 64     # sequences
    steps: int = 1000
    warm_up: int = 100  # steps in which the learning rate rises; then it falls, as a cosine
    rate: float = 1e-3
    untimed: int = 10   # first steps, which also load kernels
    turn: int = 45      # steps that a run takes at a time; divides those that are timed
    compared: int = 100  # last steps

    width = property(lambda self: self.heads * self.head_dim)  # of a token between layers


SMOKE = Config(layers=2, heads=2, head_dim=32, context=16, batch=2, steps=3, warm_up=1,
               untimed=1, turn=1, compared=3)


# ---- The one thing that differs: causal attention on [batch, seq, heads, head_dim] --------------

def cuflash_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The library's fastest stage, or the one that CUFLASH_STAGE names."""
    return cuflash.flash_attn_func(q, k, v, causal=True)


def sdpa_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """PyTorch's attention, with the backend that it chooses."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


ATTENTION = {"cuflash": cuflash_attention, "sdpa": sdpa_attention}


# ---- The model ----------------------------------------------------------------------------------

class Block(nn.Module):
    """Attention and a perceptron, each added to its input."""
    def __init__(self, config: Config, attention):
        super().__init__()
        self.heads, self.attention = config.heads, attention
        self.norm1, self.norm2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.mlp = nn.Sequential(nn.Linear(config.width, 4 * config.width), nn.GELU(),
                                 nn.Linear(4 * config.width, config.width))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, seq, width] to the same."""
        batch, seq, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, seq, 3, self.heads, -1).unbind(2)
        x = x + self.out(self.attention(q, k, v).reshape(batch, seq, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A decoder-only transformer over characters."""
    def __init__(self, config: Config, characters: int, attention):
        super().__init__()
        self.token = nn.Embedding(characters, config.width)
        self.position = nn.Parameter(torch.empty(config.context, config.width))
        self.blocks = nn.Sequential(*(Block(config, attention) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, characters, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:  # terms of the sum over all blocks start smaller
                terms = 2 * config.layers if name.endswith(("out.weight", "mlp.2.weight")) else 1
                nn.init.normal_(weight, std=0.02 / math.sqrt(terms))

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        """The mean loss, in nats per character; both are [batch, context] of character numbers."""
        x = self.blocks(self.token(x) + self.position)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


# ---- Training -----------------------------------------------------------------------------------

def load_text(device: str):
    """The text as character numbers, and the number of different characters."""
    text = TEXT.read_text(encoding="ascii")
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    return torch.tensor([numbers[character] for character in text], device=device), len(numbers)


def batches(text: Tensor, config: Config, seed: int):
    """The inputs and targets of each step: windows that begin anywhere in the text."""
    generator = torch.Generator().manual_seed(seed)  # the CPU's: the same on every device
    starts = torch.randint(len(text) - config.context, (config.steps, config.batch, 1),
                           generator=generator).to(text.device)
    window = torch.arange(config.context + 1, device=text.device)
    for tokens in (text[start + window] for start in starts):
        yield tokens[:, :-1], tokens[:, 1:]


def learning_rate(config: Config, step: int) -> float:
    """A linear rise, then half a cosine down to a tenth."""
    if step < config.warm_up:
        return config.rate * (step + 1) / config.warm_up
    done = (step - config.warm_up) / (config.steps - config.warm_up)
    return config.rate * (0.55 + 0.45 * math.cos(math.pi * done))


class Run:
    """A model that learns with the attention of this name, and has taken its first steps."""
    def __init__(self, config: Config, name: str, seed: int, device: str):
        self.config, self.name, self.seed, self.device = config, name, seed, device
        if device == "cuda":
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        text, characters = load_text(device)
        self.batches = batches(text, config, seed)
        torch.manual_seed(seed)
        self.model = GPT(config, characters, ATTENTION[name]).to(device)  # drawn on the CPU
        self.optimizer = torch.optim.AdamW(self.model.parameters(), betas=(0.9, 0.95),
                                           weight_decay=0.1, fused=device == "cuda")
        self.losses = torch.empty(config.steps, device=device)
        self.steps, self.seconds = 0, []  # taken; of each turn
        for _ in range(config.untimed):
            self.take_step()
        if device == "cuda":
            self.peak_bytes = torch.cuda.max_memory_allocated() - before

    def take_turn(self, steps: int) -> float:
        """Takes so many steps, and returns the last loss."""
        begin = self.now()
        for _ in range(steps):
            self.take_step()
        self.seconds.append(self.now() - begin)
        return self.losses[self.steps - 1].item()

    def take_step(self) -> None:
        """Takes one step."""
        x, targets = next(self.batches)
        with torch.autocast(self.device, dtype=torch.bfloat16):
            loss = self.model(x, targets)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.config, self.steps)
        self.optimizer.step()
        self.losses[self.steps] = loss.detach()
        self.steps += 1

    def now(self) -> float:
        """The time in seconds, when the device has done what it was asked to."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def result(self) -> dict:
        """What is kept of it."""
        run = {"attention": self.name, "seed": self.seed,
               "losses": [round(x, 6) for x in self.losses.tolist()]}
        if not all(map(math.isfinite, run["losses"])):
            raise SystemExit(f"{self.name}, seed {self.seed}: not every loss is finite")
        if self.device == "cuda":  # On the CPU simulator neither means anything.
            tokens = self.config.turn * self.config.batch * self.config.context
            run |= {"tokens_per_second": tokens / median(self.seconds),
                    "peak_bytes": self.peak_bytes}
        return run


def train(config: Config, attentions: list, device: str) -> list:
    """The results of a run for each (attention, seed). The runs take turns, in another order each
    round, so that what slows the machine down for a while slows down all of them."""
    Run(config, "sdpa", 0, device)  # cuBLAS takes its memory in the first run of a process.
    runs = [Run(config, name, seed, device) for name, seed in attentions]
    for turn in range((config.steps - config.untimed) // config.turn):
        order = turn % len(runs)
        for run in runs[order:] + runs[:order]:
            loss = run.take_turn(config.turn)
            print(f"{run.name}, seed {run.seed}: step {run.steps}, loss {loss:.3f}", flush=True)
    return [run.result() for run in runs]


def verdict(steps: int, ours: list, sdpa: list, second_seed: list) -> dict:
    """The verdict on three runs' losses: the difference and the spread over the last steps."""
    difference, spread = (fmean(abs(x - y) for x, y in zip(losses[-steps:], sdpa[-steps:]))
                          for losses in (ours, second_seed))
    return {"difference": difference, "spread": spread, "ok": difference < spread}


def stages(c: Config, device: str) -> dict:
    """The stage that the library chooses for each pass."""
    problem = capi.Problem(batch=c.batch, heads_q=c.heads, heads_kv=c.heads, seq_q=c.context,
                           seq_kv=c.context, head_dim=c.head_dim, dtype=capi.DTYPES.index("bf16"),
                           causal=True, softmax_scale=c.head_dim ** -0.5)
    return {name: library.on(device).chosen_stage(name, problem) for name in capi.PASSES}


def report(config: Config, runs: list, found: dict) -> None:
    """A line for each run, and the verdict."""
    for run in runs:
        figures = (f"; {run['tokens_per_second']:,.0f} tokens/s, peak memory "
                   f"{run['peak_bytes'] / 1e9:.2f} GB" if "peak_bytes" in run else "")
        print(f"{run['attention']}, seed {run['seed']}: loss {run['losses'][-1]:.4f}{figures}")
    print(f"Over the last {config.compared} steps the difference is {found['difference']:.5f}, the "
          f"spread between seeds {found['spread']:.5f}: {'ok' if found['ok'] else 'NOT BELOW IT'}")


def main() -> int:
    """Trains three times; returns 1 if the verdict is no."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="default: cuda")
    parser.add_argument("--smoke", action="store_true", help="three steps of a tiny model")
    parser.add_argument("--out", type=pathlib.Path,
                        help=f"default: {OUT}, with --smoke {OUT_OF_SMOKE}")
    args = parser.parse_args()
    if args.device == "cpu" and not args.smoke:
        parser.error("the CPU simulator is slow: on cpu there is only --smoke")
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU. Without one, --device cpu --smoke takes three steps of a "
                 "tiny model on the CPU simulator.")
    config = SMOKE if args.smoke else Config()
    out = args.out or (OUT_OF_SMOKE if args.smoke else OUT)
    where = provenance(torch, pathlib.Path(library.on(args.device).path), args.device)
    used = cuflash.backend_info()
    if used["reason"]:
        print(f"Calls cost more than they would with compiled gradients: {used['reason']}")
    runs = train(config, [("cuflash", 1), ("sdpa", 1), ("sdpa", 2)], args.device)
    found = verdict(config.compared, *(run["losses"] for run in runs))
    report(config, runs, found)
    out.parent.mkdir(parents=True, exist_ok=True)
    save(out, {"provenance": where, "config": dataclasses.asdict(config),
               "stages": stages(config, args.device), "operators": used["operators"],
               "verdict": found, "runs": runs})
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
