"""What the peers of the wave equation's loss share: sizes, points, loss."""

import numpy as np

import common

WIDTH, HEADS, FEED_FORWARD, HIDDEN = 32, 2, 256, 512
PARAMETERS = 453561
TOKENS, STEP = 5, 1e-4  # of a window, in time
CONDITION = 100  # the weight of initial and boundary conditions


def arguments(doc, modes):
    parser = common.make_parser(
        doc, modes,
        {"published": "derivatives by gradients of gradients, as the "
                      "document's scripts take them",
         "forward": "by jvp of jvp"})
    parser.add_argument("--per-axis", type=int, default=51,
                        help="points along x and along t")
    args = common.parse(parser)
    args.cases = args.per_axis**2
    return args


def plan(args):
    """Runs that do not count, and runs that do."""
    return (1, 3) if args.on_cpu else (5, 30)


def windows(x, t):
    """x, t (N) -> the tokens' x and t, (N, TOKENS, 1) each."""
    t = t[:, None] + STEP * np.arange(TOKENS)
    x = np.broadcast_to(x[:, None], t.shape)
    return [a[..., None].astype(np.float32) for a in (x, t)]


def points(per_axis):
    """Windows inside, at the initial time and on the two sides."""
    axis = np.linspace(0, 1, per_axis)
    zeros, ones = np.zeros(per_axis), np.ones(per_axis)
    x, t = (a.ravel() for a in np.meshgrid(axis, axis, indexing="ij"))
    return {"inside": windows(x, t), "start": windows(axis, zeros),
            "left": windows(zeros, axis), "right": windows(ones, axis)}


def initial_value(x):
    """Of the first tokens: (N)."""
    x = x[:, 0, 0].astype(np.float64)
    return (np.sin(np.pi * x) + 0.5 * np.sin(3 * np.pi * x)).astype(np.float32)


def loss(u_xx, u_tt, start, start_t, initial, sides):
    """Of arrays of any library, (N, TOKENS) but for `initial`, (N); a
    condition at a time holds for the first token."""
    def square(x):
        return (x**2).mean()
    conditions = square(start[:, 0] - initial) + square(start_t[:, 0])
    for side in sides:
        conditions = conditions + square(side)
    return square(u_tt - 4 * u_xx) + CONDITION * conditions
