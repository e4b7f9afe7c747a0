"""What the peers of the physics-guided transformer on the wake share: sizes,
sensors, the bias, the loss."""

import numpy as np

import common

WIDTH, HEADS, LAYERS, FEED_FORWARD = 64, 4, 2, 128
DECODER_WIDTH, DECODER_LAYERS, FREQUENCY = 128, 4, 5.0
PARAMETERS = 336387
SENSORS, PER_AXIS = 1500, 16
LOW = np.array([1, -2, 0], np.float32)
HIGH = np.array([8, 2, 19.9], np.float32)
REYNOLDS, VELOCITY = 100.0, 1.0
FIELDS, AXES = "uvp", "xyt"


def arguments(doc, modes):
    parser = common.make_parser(
        doc, modes,
        {"published": "derivatives by gradients of gradients",
         "forward": "by jvp of jvp"})
    args = common.parse(parser)
    args.cases = PER_AXIS**3
    return args


def plan(args):
    """Runs that do not count, and runs that do."""
    return (1, 3) if args.on_cpu else (5, 30)


def unit(points):
    return (points - LOW) / (HIGH - LOW) * 2 - 1


def bias(places):
    """log of the Green's function of advection and diffusion in the plane, of
    sensors (M, 3), with a global token in front: (M + 1, M + 1)."""
    x, y, t = (places[:, None, n] - places[None, :, n] for n in range(3))
    later = t > 0
    t = np.where(later, t, 1)
    rate = 1 / REYNOLDS
    log_g = (-((x - VELOCITY * t)**2 + y**2) / (4 * rate * t)
             - np.log(4 * np.pi * rate * t))
    all_of = np.zeros((SENSORS + 1, SENSORS + 1), np.float32)
    all_of[1:, 1:] = np.where(later, log_g, -np.inf)
    return all_of


def arrays():
    """Places of sensors, what they read (u and v), points; what is read does
    not matter for the time."""
    random = np.random.default_rng(0)

    def anywhere(count):
        return (LOW + (HIGH - LOW) * random.random((count, 3))).astype(
            np.float32)

    places = anywhere(SENSORS)
    readings = random.standard_normal((SENSORS, 2)).astype(np.float32)
    return {"places": places, "readings": readings,
            "points": anywhere(PER_AXIS**3), "bias": bias(places)}


def loss(fields_at_sensors, readings, d):
    """`d`: value and derivatives of u, v, p by name, at the points."""
    def square(x):
        return (x**2).mean()

    def momentum(w, along):
        return (d[w + "_t"] + d["u"] * d[w + "_x"] + d["v"] * d[w + "_y"]
                + d["p_" + along] - (d[w + "_xx"] + d[w + "_yy"]) / REYNOLDS)

    residuals = (momentum("u", "x"), momentum("v", "y"), d["u_x"] + d["v_y"])
    return (sum(square(r) for r in residuals)
            + square(fields_at_sensors[:, :2] - readings))
