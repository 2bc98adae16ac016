#!/usr/bin/env python3
"""cpu/stage.h for Python: loads build/<device>/NN.so and calls the stages in it.

The classes have the layout of the structs of that name in cpu/problem.h and cpu/stage.h. Where
these change, so do ATTN_MODULE_ABI there and ABI here; modules with another one are refused.

    python3 gpu/cuda/modules.py build host emulator

proves it on this machine: every stage in build/host and build/emulator against plain Python.
"""
import ctypes as c
import glob
import math
import random
import sys

ABI = 5
FORWARD, BACKWARD = 0, 1
FLOAT = 4  # bytes
pointer = c.c_void_p


class Status(c.Structure):
    _fields_ = [("code", c.c_int), ("text", c.c_char * 480)]


class Stride(c.Structure):
    _fields_ = [(name, c.c_int64) for name in ("batch", "head", "row")]


class Problem(c.Structure):
    _fields_ = (
        [("type", c.c_int), ("batch", c.c_int64), ("heads", c.c_int64), ("kv_heads", c.c_int64)]
        + [("q_len", c.c_int64), ("kv_len", c.c_int64), ("head_dim", c.c_int64)]
        + [("scale", c.c_float), ("causal", c.c_int)]
        + [("window_left", c.c_int64), ("window_right", c.c_int64)]
        + [(name, Stride) for name in ("q_stride", "k_stride", "v_stride", "o_stride")]
        + [("sequences", c.c_int64), ("q_cumulative", pointer), ("kv_cumulative", pointer)]
        + [("dropout", c.c_float), ("dropout_seed", c.c_uint64), ("dropout_offset", c.c_uint64)]
        + [("softcap", c.c_float), ("alibi", c.c_int)]
        + [("bias_batch", c.c_int64), ("bias_heads", c.c_int64), ("bias_gradient", c.c_int)]
        + [("mask_batch", c.c_int64), ("mask_heads", c.c_int64)]
        + [("br", c.c_int64), ("bc", c.c_int64)]
    )


class Tensors(c.Structure):
    NAMES = ("q", "k", "v", "o", "lse", "do", "dq", "dk", "dv")
    OPTIONAL = ("bias", "mask", "q_cumulative", "kv_cumulative", "dbias")
    _fields_ = [(name, pointer) for name in NAMES + OPTIONAL]


class Buffer(c.Structure):
    _fields_ = [("name", c.c_char_p), ("bytes", c.c_uint64), ("kept", c.c_int)]


MAX_BUFFERS = 8
run_function = c.CFUNCTYPE(Status, c.POINTER(Problem), c.POINTER(Tensors), c.POINTER(pointer))


class Stage(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("idea", c.c_char_p),
        ("features", c.c_uint),
        ("yardstick", c.c_int),
        ("tiles", c.c_char_p),
        ("supports", c.CFUNCTYPE(Status, c.POINTER(Problem))),
        ("buffers", c.CFUNCTYPE(c.c_int, c.POINTER(Problem), c.c_int, c.POINTER(Buffer))),
        ("forward", run_function),
        ("backward", run_function),
        ("bytes", pointer),
        ("flops", pointer),
        ("too_large", c.c_char_p),
        ("shared_bytes", pointer),
    ]


class Device(c.Structure):  # as far as it is used here
    _fields_ = [
        ("kind", c.c_char_p),
        ("open", c.CFUNCTYPE(Status)),
        ("describe", c.CFUNCTYPE(None, c.c_char_p, c.c_size_t)),
        ("allocate", c.CFUNCTYPE(Status, c.c_char_p, c.c_size_t, c.POINTER(pointer))),
        ("release", c.CFUNCTYPE(None, pointer)),
        ("upload", c.CFUNCTYPE(Status, pointer, pointer, c.c_size_t)),
        ("download", c.CFUNCTYPE(Status, pointer, pointer, c.c_size_t)),
        ("synchronize", c.CFUNCTYPE(Status)),
    ]


class Module(c.Structure):
    _fields_ = [
        ("abi", c.c_int),
        ("chapter", c.c_int),
        ("title", c.c_char_p),
        ("predict", c.c_char_p),
        ("device", c.POINTER(Device)),
        ("stages", c.POINTER(Stage)),
        ("stage_count", c.c_int),
    ]


class Refused(Exception):
    """A status other than ATTN_OK, with its sentence."""


def must(status):
    if status.code != 0:
        raise Refused(status.text.decode())


def problem_of(batch, heads, n, head_dim):
    problem = Problem()
    problem.batch, problem.heads, problem.kv_heads = batch, heads, heads
    problem.q_len, problem.kv_len, problem.head_dim = n, n, head_dim
    problem.scale = head_dim**-0.5
    return problem


class LoadedStage:
    def __init__(self, module, stage):
        self.device, self.stage, self.name = module.device.contents, stage, stage.name.decode()
        self.has_backward = bool(stage.backward)

    def buffer_bytes(self, problem):
        """What its passes want besides the tensors, the forward pass' buffers first."""
        sizes, need = [], (Buffer * MAX_BUFFERS)()
        for which in (FORWARD, BACKWARD)[: 1 + self.has_backward]:
            count = self.stage.buffers(problem, which, need) if self.stage.buffers else 0
            sizes += [need[i].bytes for i in range(count)]
        return sizes

    def run(self, which, problem, tensors, buffers):
        """Addresses: of tensors by name, of buffers in the order of buffer_bytes(). A GPU's pass is
        started, not waited for."""
        if self.stage.supports:
            must(self.stage.supports(problem))
        addresses = (pointer * (2 * MAX_BUFFERS))(*buffers)
        call = self.stage.backward if which == BACKWARD else self.stage.forward
        must(call(problem, Tensors(**tensors), addresses))


def load(folder, kind):
    """All stages of a device, by chapter. An empty list when no chapter is built for it."""
    stages = []
    for path in sorted(glob.glob(f"{folder}/{kind}/[0-9][0-9].so")):
        get = c.CDLL(path).attn_module_get
        get.restype = c.POINTER(Module)
        module = get().contents
        if module.abi != ABI:
            raise Refused(
                f"{path} has the interface {module.abi} of cpu/stage.h and gpu/cuda/modules.py has "
                f"{ABI}: make build, or renew the older"
            )
        must(module.device.contents.open())
        stages += [LoadedStage(module, module.stages[i]) for i in range(module.stage_count)]
    return stages


def describe(device):
    text = c.create_string_buffer(200)
    device.describe(text, len(text))
    return text.value.decode()


# ---- proof: every stage against attention in plain Python, double precision ----------------------
def plain_attention(q, k, v, do, n, d, scale):
    """One head; rows of d. Returns o, lse, dq, dk, dv as flat lists."""
    dot = lambda a, i, b, j: sum(a[i * d + x] * b[j * d + x] for x in range(d))
    o, lse, dq, dk, dv = [0.0] * (n * d), [], [0.0] * (n * d), [0.0] * (n * d), [0.0] * (n * d)
    for i in range(n):
        s = [scale * dot(q, i, k, j) for j in range(n)]
        lse.append(math.log(sum(map(math.exp, s))))
        p = [math.exp(x - lse[i]) for x in s]
        for x in range(d):
            o[i * d + x] = sum(p[j] * v[j * d + x] for j in range(n))
        row_sum = dot(do, i, o, i)
        for j in range(n):
            ds = p[j] * (dot(do, i, v, j) - row_sum) * scale
            for x in range(d):
                dq[i * d + x] += ds * k[j * d + x]
                dk[j * d + x] += ds * q[i * d + x]
                dv[j * d + x] += p[j] * do[i * d + x]
    return {"o": o, "lse": lse, "dq": dq, "dk": dk, "dv": dv}


def worst_error(stage, heads=2, n=5, d=8):
    problem, device, size = problem_of(1, heads, n, d), stage.device, heads * n * d
    numbers = random.Random(1)
    values = {name: [numbers.gauss(0, 1) for _ in range(size)] for name in ("q", "k", "v", "do")}
    results = ("o", "lse", "dq", "dk", "dv") if stage.has_backward else ("o", "lse")
    lengths = {name: heads * n if name == "lse" else size for name in Tensors.NAMES}
    addresses = {}

    def allocate(name, size_in_bytes):
        memory = pointer()
        must(device.allocate(name, size_in_bytes, c.byref(memory)))
        return memory.value

    for name in Tensors.NAMES:
        addresses[name] = allocate(name.encode(), FLOAT * lengths[name])
        if name in values:
            numbers_in_c = (c.c_float * size)(*values[name])
            must(device.upload(addresses[name], numbers_in_c, c.sizeof(numbers_in_c)))
    buffers = [allocate(b"buffer", size_in_bytes) for size_in_bytes in stage.buffer_bytes(problem)]
    stage.run(FORWARD, problem, addresses, buffers)
    if stage.has_backward:
        stage.run(BACKWARD, problem, addresses, buffers)
    must(device.synchronize())
    worst = 0.0
    for name in results:
        got = (c.c_float * lengths[name])()
        must(device.download(got, addresses[name], c.sizeof(got)))
        for h in range(heads):
            head = [values[t][h * n * d : (h + 1) * n * d] for t in ("q", "k", "v", "do")]
            right = plain_attention(*head, n, d, problem.scale)[name]
            for i, x in enumerate(right):
                error = abs(got[h * len(right) + i] - x)
                worst = max(worst, math.inf if math.isnan(error) else error)
    for memory in list(addresses.values()) + buffers:
        device.release(memory)
    return worst


def main(folder, kinds):
    failed = passed = 0
    for kind in kinds:
        for stage in load(folder, kind):
            what = f"{stage.name} on {kind}, {'both passes' if stage.has_backward else 'forward'}"
            try:
                error = worst_error(stage)
            except Refused as refused:
                print(f"not run: {what}: {refused}")
                continue
            good = error < 1e-5
            passed, failed = passed + good, failed + (not good)
            print(f"{'PASS' if good else 'FAIL'} {what}: off by {error:.1e}")
    if passed + failed == 0:
        raise Refused(f"no stage was run: is a chapter built in {folder} for {' or '.join(kinds)}?")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        if len(sys.argv) < 3:
            raise Refused("it wants a folder and devices: gpu/cuda/modules.py build host emulator")
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except Refused as refused:
        print(f"modules.py: {refused}", file=sys.stderr)
        sys.exit(2)
