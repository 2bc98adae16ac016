#!/usr/bin/env python3
"""features.py [FOLDER] -- writes the golden cases of chapter 6's features with PyTorch, in float64.

Written from cpu/problem.h and cpu/dropout.h alone, with whole matrices and PyTorch's own gradients: nothing
here is shared with the project's code. Inputs are rounded to float32 before anything is computed from them,
results after. Needs PyTorch and NumPy; without them the files that are committed serve.
"""
import os
import sys

import numpy
import torch

F64 = torch.float64


def rounded(*shape, factor=1.0):
    return (factor * torch.randn(*shape, dtype=F64)).to(torch.float32).to(F64)


# ---- dropout: Philox 4x32-10 (Salmon et al. 2011), keyed as cpu/dropout.h says ----
def philox(counter, key):
    x, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ x[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return x


def kept(c, head, q_len, kv_len):
    """What row i of P is multiplied with, by column; `head` counts through batch (or sequences) and heads."""
    p, seed, offset = c["dropout"], c["dropout_seed"], c.get("dropout_offset", 0)
    factor = torch.zeros(q_len, kv_len, dtype=F64)
    for i in range(q_len):
        for j in range(kv_len):
            word = philox((j // 4, i, head, offset), (seed & 0xFFFFFFFF, seed >> 32))[j % 4]
            factor[i, j] = 0 if word < int(p * 2**32) else 1 / (1 - p)
    return factor


# ---- one head of one member of the batch, or of one sequence ----
def attention(c, q, k, v, head, heads, number, bias, mask):
    q_len, kv_len = q.shape[0], k.shape[0]
    i = torch.arange(q_len).view(-1, 1)
    j = torch.arange(kv_len).view(1, -1)
    own = i if c.get("top_left") else i + kv_len - q_len
    s = c["scale"] * (q @ k.T)
    if c.get("softcap"):
        s = c["softcap"] * torch.tanh(s / c["softcap"])
    if bias is not None:
        s = s + bias
    if c.get("alibi"):
        s = s - 2.0 ** (-8 * (head + 1) / heads) * (own - j).abs()
    seen = torch.ones(q_len, kv_len, dtype=torch.bool)
    if c["causal"]:
        seen &= j <= own
    if c["window"]:
        seen &= j > own - c["window"]
    if c.get("window_right"):
        seen &= j < own + c["window_right"]
    if mask is not None:
        seen &= mask != 0
    some = seen.any(1, keepdim=True)
    s = torch.where(seen, s, torch.tensor(-float("inf"), dtype=F64))
    s = torch.where(some, s, torch.zeros(1, dtype=F64))  # such a row has no softmax
    lse = torch.logsumexp(s, 1)
    p = torch.where(seen, torch.softmax(s, 1), torch.zeros(1, dtype=F64))
    if c.get("dropout"):
        p = p * kept(c, number * heads + head, q_len, kv_len)
    return p @ v, torch.where(some[:, 0], lse, torch.tensor(-float("inf"), dtype=F64))


def broadcast(tensor, b, h):
    if tensor is None:
        return None
    return tensor[b if tensor.shape[0] > 1 else 0, h if tensor.shape[1] > 1 else 0]


def forward(c, q, k, v, bias, mask):
    o = torch.zeros_like(q)
    lse = torch.zeros(q.shape[:3], dtype=F64)
    o_rows, lse_rows = [], []
    q_cut = c.get("q_cumulative", [0, c["q_len"]])
    kv_cut = c.get("kv_cumulative", [0, c["kv_len"]])
    for b in range(c["batch"]):
        for h in range(c["heads"]):
            kv_head = h // (c["heads"] // c["kv_heads"])
            parts = []
            for s in range(len(q_cut) - 1):
                rows, keys = slice(q_cut[s], q_cut[s + 1]), slice(kv_cut[s], kv_cut[s + 1])
                number = s if "q_cumulative" in c else b
                parts.append(attention(c, q[b, h, rows], k[b, kv_head, keys], v[b, kv_head, keys], h,
                                       c["heads"], number, broadcast(bias, b, h), broadcast(mask, b, h)))
            o_rows.append(torch.cat([part[0] for part in parts]))
            lse_rows.append(torch.cat([part[1] for part in parts]))
    return torch.stack(o_rows).view_as(o), torch.stack(lse_rows).view_as(lse)


# ---- files ----
def write(folder, name, tensor):
    numpy.save(os.path.join(folder, name + ".npy"), tensor.detach().numpy().astype(numpy.float32))


def make(folder, c, bias_shape=None, mask_shape=None, factor=1.0):
    c["scale"] = float(numpy.float32(c.get("scale", c["head_dim"] ** -0.5)))
    q_shape = (c["batch"], c["heads"], c["q_len"], c["head_dim"])
    kv_shape = (c["batch"], c["kv_heads"], c["kv_len"], c["head_dim"])
    q, k, v, d_o = rounded(*q_shape, factor=factor), rounded(*kv_shape), rounded(*kv_shape), rounded(*q_shape)
    bias = rounded(*bias_shape, c["q_len"], c["kv_len"]) if bias_shape else None
    mask = None
    if mask_shape:
        mask = (torch.rand(*mask_shape, c["q_len"], c["kv_len"]) < 0.6).to(F64)
        mask[:, :, 2] = 0  # the third query sees nothing
        mask[:, :, 4, :-1], mask[:, :, 4, -1] = 0, 1  # the fifth the last key alone
    wanted = [tensor.requires_grad_() for tensor in (q, k, v, bias) if tensor is not None]
    o, lse = forward(c, q, k, v, bias, mask)
    gradients = torch.autograd.grad((o * d_o).sum(), wanted)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "case.txt"), "w") as text:
        for name, value in c.items():
            text.write(name + " " + (" ".join(map(str, value)) if isinstance(value, list) else str(value)) + "\n")
    for name, tensor in (("q", q), ("k", k), ("v", v), ("do", d_o), ("o", o), ("lse", lse), ("bias", bias),
                         ("mask", mask)):
        if tensor is not None:
            write(folder, name, tensor)
    for name, tensor in zip(("dq", "dk", "dv", "dbias"), gradients):
        if name != "dbias" or c.get("bias_gradient"):
            write(folder, name, tensor)


def sizes(batch, heads, kv_heads, q_len, kv_len, head_dim, causal=0, window=0, **more):
    return dict(batch=batch, heads=heads, kv_heads=kv_heads, q_len=q_len, kv_len=kv_len, head_dim=head_dim,
                causal=causal, window=window, **more)


def main():
    to = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.manual_seed(6)
    at = lambda name: os.path.join(to, name)
    # Sequences without queries, without keys and without both; with more queries than keys, and fewer.
    lengths = dict(q_cumulative=[0, 0, 9, 9, 12, 42, 60], kv_cumulative=[0, 7, 16, 16, 16, 60, 70])
    make(at("lengths"), sizes(1, 2, 2, 60, 70, 16, **lengths))
    make(at("lengths-causal"), sizes(1, 4, 2, 60, 70, 16, causal=1, **lengths))
    make(at("lengths-window-alibi"), sizes(1, 2, 1, 60, 70, 16, window=9, window_right=5, alibi=1, softcap=3,
                                           **lengths))
    make(at("top-left"), sizes(1, 2, 2, 21, 38, 24, causal=1, top_left=1, scale=0.25))
    make(at("window-both"), sizes(1, 2, 1, 70, 45, 24, window=12, window_right=7, scale=0.25))
    make(at("softcap"), sizes(1, 2, 1, 33, 70, 32, causal=1, softcap=2.5, scale=-0.125), factor=3)
    make(at("alibi"), sizes(1, 8, 2, 19, 70, 16, alibi=1))
    make(at("bias"), sizes(2, 2, 2, 18, 37, 16, bias_gradient=1), bias_shape=(1, 2))
    make(at("bias-each"), sizes(2, 2, 1, 18, 37, 16, causal=1, bias_gradient=1), bias_shape=(2, 2))
    make(at("mask"), sizes(2, 2, 1, 20, 37, 16), mask_shape=(2, 1))
    make(at("dropout"), sizes(2, 2, 1, 18, 70, 16, causal=1, dropout=0.25, dropout_seed=81985529216486895,
                              dropout_offset=3))
    make(at("lengths-dropout"), sizes(1, 2, 1, 60, 70, 16, dropout=0.5, dropout_seed=7, **lengths))
    make(at("all"), sizes(2, 4, 2, 21, 38, 20, causal=1, window=25, top_left=1, softcap=4, alibi=1,
                          bias_gradient=1, dropout=0.125, dropout_seed=11, scale=0.5), bias_shape=(2, 1), mask_shape=(1, 4))
    # Long enough, with d > 32, that a whole tile of 128 queries and 64 keys lies on the diagonal.
    make(at("causal-tiles"), sizes(1, 1, 1, 200, 230, 36, causal=1))


main()
