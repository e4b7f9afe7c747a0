"""What the peers of Burgers' loss share: sizes, points, loss."""

import math

import numpy as np

import common

WIDTHS = (2, 20, 20, 20, 1)
PARAMETERS = sum((a + 1) * b for a, b in zip(WIDTHS, WIDTHS[1:]))
NU = 0.01 / math.pi
CONDITION = 100  # the weight of boundary conditions


def arguments(doc, modes):
    parser = common.make_parser(
        doc, modes,
        {"published": "derivatives by gradients of gradients, as is usual",
         "forward": "by jvp, and jvp of jvp"}, ("fp64",))
    parser.add_argument("--per-axis", type=int, default=51,
                        help="points are the square of that")
    args = common.parse(parser)
    args.cases = args.per_axis**2
    return args


def plan(args):
    """Runs that do not count, and runs that do."""
    return (5, 30) if args.on_cpu else (10, 100)


def points(per_axis):
    """x and t, (N, 1) each: inside, and on the two ends."""
    inside = np.random.default_rng(0).random((per_axis**2, 2))
    time = np.linspace(0, 1, per_axis)[:, None]
    return {"inside": (2 * inside[:, :1] - 1, inside[:, 1:]),
            "left": (np.full_like(time, -1), time),
            "right": (np.full_like(time, 1), time)}


def loss(u, u_x, u_t, u_xx, ends):
    """Of arrays of any library."""
    total = ((u_t + u * u_x - NU * u_xx)**2).mean()
    for end in ends:
        total = total + CONDITION * (end**2).mean()
    return total
