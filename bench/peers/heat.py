"""What the peers of the heat step share: sizes, arguments, timing, output."""

import argparse
import contextlib
import json
import math
import signal
import sys
import time

import numpy as np

ROWS = COLS = 26
FRAMES, VISIBLE, STRIDE = 401, 5, 5
WIDTH, LAYERS, HEADS, HIDDEN = 512, 12, 16, 256
DX = 1 / (COLS - 1)


class OutOfTime(Exception):
    pass


def arguments(doc, modes):
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["step", "rollout"])
    parser.add_argument("--form", choices=["published", "collapsed"],
                        default="published",
                        help="embed 26*26*256 numbers a frame, or 26*26")
    parser.add_argument("--mask", choices=["block", "causal"], default="block")
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--precision", choices=["fp32", "tf32"],
                        default="fp32")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--batch", type=int, default=4, help="cases at once")
    parser.add_argument("--repeats", type=int, default=0,
                        help="timed runs (default: what suits the device)")
    parser.add_argument("--limit", type=float, default=120,
                        help="seconds after which no new run is begun")
    args = parser.parse_args()
    args.start = time.monotonic()
    if args.device == "cpu" and args.precision == "tf32":
        parser.error("--precision tf32 needs a GPU")
    if args.device == "cpu" and args.mode not in ("eager", "jit"):
        parser.error(f"--mode {args.mode} needs a GPU; on the CPU use "
                     f"--mode {modes[0]}")
    return args


def seconds_left(args):
    return args.limit - (time.monotonic() - args.start)


@contextlib.contextmanager
def limited(args):
    """Raises OutOfTime inside, at the limit: compilers do not look at it."""
    def out_of_time(*_):
        raise OutOfTime(f"not ready within {args.limit:.0f} s")
    signal.signal(signal.SIGALRM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, max(seconds_left(args), 0.1))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def measure(work, wait, args):
    """Sorted milliseconds of `work`, each from an idle device to an idle one.

    Before the limit at least one run is timed; after it, none is begun.
    """
    on_cpu = args.device == "cpu"
    if args.what == "step":
        warm_up, repeats = (1, 5) if on_cpu else (10, 50)
    else:
        warm_up, repeats = (0, 1) if on_cpu else (1, 5)
    repeats = args.repeats or repeats
    times = []
    for n in range(warm_up + repeats):
        if times and seconds_left(args) < 0:
            break
        wait()
        start = time.perf_counter()
        work()
        wait()
        if n >= warm_up:
            times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)


def median(times):
    return times[(len(times) - 1) // 2]


def report(args, peer, times, **more):
    json.dump({"peer": peer, "ms": median(times), "fastest_ms": times[0],
               "slowest_ms": times[-1], "repeats": len(times),
               "cases": args.batch, "form": args.form, "mask": args.mask,
               "precision": args.precision, "device": args.device, **more},
              sys.stdout)
    print()


def encoding(n, dims):
    """Sines and cosines of n places: (n, dims)."""
    m = dims // 2
    angle = np.arange(n)[:, None] * np.logspace(0, -4, m)
    both = np.concatenate([np.sin(angle), np.cos(angle)], 1)
    return (both / math.sqrt(m)).astype(np.float32)


def space_encoding():
    y, x = encoding(ROWS, WIDTH // 2), encoding(COLS, WIDTH // 2)
    return y[:, None] + x[None]  # (rows, cols, features)


def additive_mask(kind):
    """0 where query i sees key j, else -inf: (frames, frames)."""
    i, j = np.indices((FRAMES, FRAMES))
    seen = j < VISIBLE
    if kind == "causal":
        seen = seen | (j < i)
    return np.where(seen, 0, -np.inf).astype(np.float32)


def plates(batch):
    """Fields (batch, frames, rows, cols), diffusivities and time steps."""
    random = np.random.default_rng(0)
    fields = random.random((batch, FRAMES, ROWS, COLS), dtype=np.float32)
    alpha = (0.01 + 0.09 * random.random(batch)).astype(np.float32)
    return fields, alpha, (DX**2 / (10 * alpha)).astype(np.float32)


def rate_and_laplacian(p, dt):
    """Of the inner nodes of p, by slices that arrays of any library know."""
    inner = p[:, :-1, 1:-1, 1:-1]
    lap = (p[:, :-1, 1:-1, 2:] + p[:, :-1, 1:-1, :-2] + p[:, :-1, 2:, 1:-1]
           + p[:, :-1, :-2, 1:-1] - 4 * inner) / DX**2
    return (p[:, 1:, 1:-1, 1:-1] - inner) / dt.reshape(-1, 1, 1, 1), lap


def loss(p, truth, alpha, dt):
    """The document's: mean square error, heat equation, edges, first frames."""
    def square(x):
        return (x**2).mean()
    e = p - truth
    rate, lap = rate_and_laplacian(p, dt)
    physics = square(rate - alpha.reshape(-1, 1, 1, 1) * lap)
    edges = (square(e[..., 0]) + square(e[..., -1])
             + square(e[:, :, 0]) + square(e[:, :, -1]))
    return (square(e) + 0.001 * physics + 0.1 * edges
            + 0.1 * square(e[:, :VISIBLE]))
