"""What the peers of the heat transformer share: sizes, arguments, data, loss."""

import math

import numpy as np

import common

ROWS = COLS = 26
FRAMES, VISIBLE, STRIDE = 401, 5, 5
WIDTH, LAYERS, HEADS, HIDDEN = 512, 12, 16, 256
DX = 1 / (COLS - 1)


def arguments(doc, modes):
    parser = common.make_parser(
        doc, modes, {"published": "embed 26*26*256 numbers a frame",
                     "collapsed": "embed 26*26"})
    parser.add_argument("what", choices=["step", "rollout"])
    parser.add_argument("--mask", choices=["block", "causal"], default="block")
    parser.add_argument("--batch", type=int, default=4, help="cases at once")
    return common.parse(parser)


def plan(args):
    """Runs that do not count, and runs that do."""
    if args.what == "step":
        return (1, 5) if args.on_cpu else (10, 50)
    return (0, 1) if args.on_cpu else (1, 5)


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
