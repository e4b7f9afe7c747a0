"""What the peers in JAX share: setting up, compiling, timing."""

import jax

import common

MODES = ["jit"]


def run(args, make, plan, cases, **more):
    """Times `make(args)`, which returns the work and what waits for it, and
    prints the line."""
    platform, _, index = args.device.partition(":")
    jax.config.update("jax_platforms", platform)
    jax.config.update(
        "jax_default_matmul_precision",
        "tensorfloat32" if args.precision == "tf32" else "highest")
    try:
        device = jax.devices()[int(index or 0)]
    except (RuntimeError, IndexError) as error:
        raise SystemExit(f"error: JAX has no device {args.device}: {error}")
    with jax.default_device(device), common.limited(args):
        work, wait = make(args)
        work()  # compiles
        wait()
    with jax.default_device(device):
        times = common.measure(work, wait, args, plan)
    memory = None if args.on_cpu else device.memory_stats()
    common.report(args, f"jax {jax.__version__} jit", times, cases,
                  memory and memory.get("peak_bytes_in_use"), **more)
