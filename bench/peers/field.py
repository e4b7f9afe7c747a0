"""Networks for fields: what the peers in PyTorch and JAX share."""

import math

import numpy as np

import common

FORMS = {"published": "as the formulas say; spectral layers by fast transforms",
         "products": "spectral layers by products with the kept waves, as ours"}
SLOWEST_TURN = 100  # frames per radian
MOST_TURNS = 16  # along an axis
PER_WIDTH = 4  # of hidden layers


def arguments(doc, modes):
    parser = common.make_parser(doc, modes, FORMS)
    add = parser.add_argument
    add("what", choices=["step", "predict"])
    add("--model", choices=["fno", "space_time"], default="fno")
    add("--nodes", type=int, nargs="+", default=[256], help="along each axis")
    add("--batch", type=int, default=64)
    add("--given", type=int, default=10, help="frames that are seen at first")
    add("--frames", type=int, default=4,
        help="that a step forecasts: fno from its own, space_time from true "
             "ones")
    add("--steps", type=int, default=31, help="frames of predict, of one case")
    add("--width", type=int, default=64)
    add("--layers", type=int, default=4)
    add("--modes", type=int, default=24)
    add("--heads", type=int, default=4)
    add("--patch", type=int, default=8)
    add("--parameters", type=int,
        help="how many ours has: with another number nothing is timed")
    args = common.parse(parser)
    args.axes = len(args.nodes)
    if args.model == "space_time" and args.form != "published":
        parser.error("space_time has no spectral layers: --form published")
    if args.axes > 2:
        parser.error("peers are written for one axis or two")
    args.cases = args.batch if args.what == "step" else 1
    return args


def plan(args):
    if args.what == "step":
        return (2, 9) if args.on_cpu else (20, 101)
    return (2, 11) if args.on_cpu else (5, 51)


def expect_parameters(args, count):
    if args.parameters is not None and count != args.parameters:
        raise SystemExit(f"error: {count} parameters, ours has "
                         f"{args.parameters}")


def fields(args, cases, frames):
    """Random fields of one channel: (cases, frames, nodes…, 1)."""
    random = np.random.default_rng(0)
    return random.random((cases, frames, *args.nodes, 1), dtype=np.float32)


def waves(nodes, kept):
    """e^{-2πi k j / n}: (nodes, kept)."""
    turns = np.outer(np.arange(nodes), kept) % nodes / nodes
    return np.exp(-2j * math.pi * turns).astype(np.complex64)


def kept_waves(args):
    """To kept frequencies, of each axis, and back, of each axis; the last axis
    has real numbers on one side, so that its way back counts most twice."""
    m = args.modes
    both = [*range(m), *range(-m, 0)]
    to = [waves(n, both) for n in args.nodes[:-1]]
    to.append(waves(args.nodes[-1], range(m)))
    back = [w.conj().T / len(w) for w in to]
    back[-1] = back[-1] * np.where(np.arange(m) > 0, 2, 1)[:, None]
    return to, [w.astype(np.complex64) for w in back]


def kept_count(args):
    return args.modes * (2 * args.modes) ** (args.axes - 1)


def space_angles(args, pairs):
    """Of each patch of a periodic grid: (S, pairs)."""
    axis = np.arange(pairs) % args.axes
    last = (pairs - 1 - axis) // args.axes
    share = np.arange(pairs) // args.axes / np.maximum(last, 1)
    turns = np.round(MOST_TURNS ** share)
    places = np.stack(np.meshgrid(
        *(np.arange(n // args.patch) / (n // args.patch) for n in args.nodes),
        indexing="ij"), -1).reshape(-1, args.axes)
    return (2 * math.pi * places[:, axis] * turns).astype(np.float32)


def time_angles(first, frames, pairs):
    rates = SLOWEST_TURN ** -(np.arange(pairs) / max(pairs - 1, 1))
    return np.outer(np.arange(first, first + frames), rates).astype(np.float32)


def band(frames, memory):
    """0 where a frame sees another, else -inf: (frames, frames)."""
    i, j = np.indices((frames, frames))
    return np.where((j <= i) & (j > i - memory), 0, -np.inf).astype(np.float32)
