#!/usr/bin/env python3
"""This project's stages on a GPU beside cuBLAS' sgemm and PyTorch's fp32 attention, in one run.

    make peers                                        build/gpu into plots/recorded
    python3 gpu/cuda/peers.py build plots/recorded    the same

writes <gpu>-peers.csv, a row for each kernel and pass, and copy-<gpu>.csv, what a copy within the
GPU's memory takes: the sloping part of the roofline. Needs a GPU, modules in build/gpu, and PyTorch.

Order and power confound kernels that run one after the other. So all take turns, round by round,
with a pause before each burst; a time is the median over the rounds of a burst's median, a share the
median over the rounds of a round's own. Before each run so much memory is written that nothing else
is left in the L2: all runs start alike, and the GPU is busy while the CPU prepares the next call.
"""
import datetime
import os
import statistics
import subprocess
import sys
import time

import modules
from modules import BACKWARD, FORWARD, Refused

PROBLEMS = ((8, 32, 2048, 64), (8, 16, 2048, 128))  # batch, heads, N, d
ROUNDS, RUNS, SETS = 9, 5, 2  # runs after one that is not timed; sets of input that take turns
SGEMM, COPY, FLUSH = 8192, 1 << 30, 1 << 28  # rows and columns; floats; floats
KIND, DEVICE, TORCH_BACKEND = "gpu", "cuda", "EFFICIENT_ATTENTION"
PASS_NAME = ("forward", "backward")
TOLERANCE = 1e-3  # of the largest value: no proof, but what a call with wrong arguments won't meet


class Job:
    """A pass to time: run(i) starts it on the i-th set of input, after before(i), untimed."""

    def __init__(self, kernel, which, flops, run, before=lambda i: None):
        self.kernel, self.flops, self.run, self.before = kernel, flops, run, before
        self.pass_name = "" if which is None else PASS_NAME[which]
        self.rounds = []  # milliseconds

    def burst(self, torch, flush):
        times = []
        time.sleep(0.05)
        for i in range(RUNS + 1):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.before(i % SETS)
            flush.zero_()
            start.record()
            self.run(i % SETS)
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop))
        self.rounds.append(statistics.median(times[1:]))

    def tflops(self):
        return self.flops / statistics.median(self.rounds) / 1e9


def complain(text):
    print(f"peers.py: {text}", file=sys.stderr)


# ---- the inputs, and PyTorch's answers -----------------------------------------------------------
class Inputs:
    """SETS sets of random q, k, v, do, and PyTorch's results, to compare with and run backward from."""

    def __init__(self, torch, batch, heads, n, d):
        self.torch, shape = torch, (batch, heads, n, d)
        self.sets = []
        for _ in range(SETS):
            q, k, v, do = (torch.randn(shape, device=DEVICE) for _ in range(4))
            leaves = [t.detach().requires_grad_() for t in (q, k, v)]  # same memory, with gradients
            with self.backend():
                o = torch.nn.functional.scaled_dot_product_attention(*leaves)
            self.sets.append({"q": q, "k": k, "v": v, "do": do, "leaves": leaves, "o": o})
        gradients = self.backward(0)
        self.right = {"o": self.sets[0]["o"].detach()}
        self.right.update(zip(("dq", "dk", "dv"), gradients))

    def backend(self):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel([getattr(SDPBackend, TORCH_BACKEND)])

    def forward(self, i):
        with self.torch.no_grad(), self.backend():
            self.torch.nn.functional.scaled_dot_product_attention(*self.sets[i]["leaves"])

    def backward(self, i):
        s = self.sets[i]
        return self.torch.autograd.grad(s["o"], s["leaves"], s["do"], retain_graph=True)


# ---- the stages ----------------------------------------------------------------------------------
class StageRuns:
    """Calls of one stage on Inputs, with outputs and buffers in memory that all stages share."""

    def __init__(self, stage, problem, inputs, outputs, pool):
        self.stage, self.problem, self.inputs, self.outputs = stage, problem, inputs, outputs
        self.buffers, at = [], pool.data_ptr()
        for size in stage.buffer_bytes(problem):
            self.buffers.append(at)
            at += aligned(size)

    def run(self, which, i):
        tensors = {name: self.inputs.sets[i][name].data_ptr() for name in ("q", "k", "v", "do")}
        tensors.update((name, t.data_ptr()) for name, t in self.outputs.items())
        self.stage.run(which, self.problem, tensors, self.buffers)

    def check(self):
        """Refused where the stage refuses, fails, or is not near PyTorch."""
        for t in self.outputs.values():
            t.fill_(float("nan"))
        for which in (FORWARD, BACKWARD)[: 1 + self.stage.has_backward]:
            self.run(which, 0)
        modules.must(self.stage.device.synchronize())
        for name, right in self.inputs.right.items():
            if name != "o" and not self.stage.has_backward:
                continue
            error = float((self.outputs[name] - right).abs().max() / right.abs().max())
            if not error < TOLERANCE:
                raise Refused(f"its {name} is off by {error:.1e} of PyTorch's largest value")


def aligned(size):
    return (size + 255) // 256 * 256


def stage_jobs(torch, stages, inputs, batch, heads, n, d):
    problem = modules.problem_of(batch, heads, n, d)
    shape, flops, jobs, complete = (batch, heads, n, d), batch * heads * n * n * d, [], True
    outputs = {name: torch.empty(shape, device=DEVICE) for name in ("o", "dq", "dk", "dv")}
    outputs["lse"] = torch.empty(shape[:3], device=DEVICE)
    most = max(sum(map(aligned, stage.buffer_bytes(problem))) for stage in stages)
    pool = torch.empty(most + 256, dtype=torch.uint8, device=DEVICE)
    outputs_and_pool = (outputs, pool)  # alive as long as the jobs are
    for stage in stages:
        runs = StageRuns(stage, problem, inputs, *outputs_and_pool)
        try:
            runs.check()
        except Refused as refused:
            complain(f"not timed: {stage.name} on B={batch} H={heads} N={n} d={d}: {refused}")
            complete = False
            continue
        forward = lambda i, runs=runs: runs.run(FORWARD, i)
        jobs.append(Job(stage.name, FORWARD, 4 * flops, forward))
        if stage.has_backward:
            backward = lambda i, runs=runs: runs.run(BACKWARD, i)
            jobs.append(Job(stage.name, BACKWARD, 10 * flops, backward, forward))
    return jobs, outputs_and_pool, complete


# ---- measuring and writing -----------------------------------------------------------------------
def take_turns(torch, jobs, flush):
    for _ in range(ROUNDS + 1):
        for job in jobs:
            job.burst(torch, flush)
    for job in jobs:
        del job.rounds[0]  # warmed up: clocks, kernels that are loaded when they are first used


def measure(torch, stages, sgemm_job, copy_job, flush):
    rows, all_complete = [], True
    for number, (batch, heads, n, d) in enumerate(PROBLEMS):
        inputs = Inputs(torch, batch, heads, n, d)
        jobs, memory, complete = stage_jobs(torch, stages, inputs, batch, heads, n, d)
        all_complete &= complete
        flops = batch * heads * n * n * d
        jobs.append(Job("pytorch-efficient", FORWARD, 4 * flops, inputs.forward))
        jobs.append(Job("pytorch-efficient", BACKWARD, 10 * flops, inputs.backward))
        sgemm_job.rounds = []
        take_turns(torch, [sgemm_job] + jobs + ([copy_job] if number == 0 else []), flush)
        for job in [sgemm_job] + jobs:
            ms = job.rounds
            turns = zip(ms, sgemm_job.rounds)
            share = statistics.median(
                job.flops / mine / (sgemm_job.flops / its) for mine, its in turns
            )
            rows.append(
                f"{job.kernel},{job.pass_name},{batch},{heads},{n},{d},{statistics.median(ms):.4f},"
                f"{min(ms):.4f},{max(ms):.4f},{job.tflops():.3f},{share:.4f}"
            )
            print(rows[-1], flush=True)
        del jobs, memory, inputs
        torch.cuda.empty_cache()
    return rows, all_complete


def driver_version():
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.split()[0]
    except (OSError, IndexError):
        return "unknown"


def write(path, lines):
    with open(path + ".new", "w") as file:
        file.write("\n".join(lines) + "\n")
    os.replace(path + ".new", path)
    print(f"wrote {path}")


def main(built, recorded):
    try:
        import torch
    except ImportError:
        raise Refused(
            "PyTorch is not installed for this python3 (PYTHON= names another): it has the sgemm "
            "of cuBLAS and the attention to compare with"
        )
    if not torch.cuda.is_available():
        raise Refused("PyTorch sees no NVIDIA GPU here, and times are a GPU's")
    stages = modules.load(built, KIND)
    if not stages:
        raise Refused(f"no chapter is built for the GPU in {built}/gpu: make build, where nvcc is")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)

    a, b = (torch.randn(SGEMM, SGEMM, device=DEVICE) for _ in range(2))
    product = torch.empty_like(a)
    sgemm_job = Job("sgemm", None, 2 * SGEMM**3, lambda i: torch.matmul(a, b, out=product))
    source = torch.randn(COPY, device=DEVICE)
    target = torch.empty_like(source)
    copy_job = Job("copy", None, 0, lambda i: target.copy_(source))
    flush = torch.empty(FLUSH, device=DEVICE)
    rows, complete = measure(torch, stages, sgemm_job, copy_job, flush)

    name = torch.cuda.get_device_name(0).replace("NVIDIA ", "").lower().replace(" ", "-")
    machine = modules.describe(stages[0].device)
    where = f"# {machine}, driver {driver_version()}, PyTorch {torch.__version__}"
    how = f"# {datetime.date.today()}, make peers; medians of {ROUNDS} rounds of {RUNS} runs"
    peers = [
        where,
        f"{how}; TFLOP/s of 4d FLOPs a pair forward, 10d backward; "
        f"share: of cuBLAS sgemm {SGEMM}^3 in the same rounds",
        "# pytorch-efficient: scaled_dot_product_attention in fp32, EFFICIENT_ATTENTION: "
        "3xTF32 on Tensor Cores",
        "kernel,pass,batch,heads,n,head_dim,ms,ms_min,ms_max,tflops,share_of_sgemm",
    ]
    write(f"{recorded}/{name}-peers.csv", peers + rows)
    copy = [where, f"{how}; a copy within the GPU's memory: bytes read and written", "bytes,ms"]
    copied = f"{2 * 4 * COPY},{statistics.median(copy_job.rounds):.4f}"
    write(f"{recorded}/copy-{name}.csv", copy + [copied])
    return 0 if complete else 1


if __name__ == "__main__":
    try:
        if len(sys.argv) != 3:
            raise Refused("it wants two folders: gpu/cuda/peers.py build plots/recorded")
        sys.exit(main(*sys.argv[1:]))
    except Refused as refused:
        complain(refused)
        sys.exit(2)
