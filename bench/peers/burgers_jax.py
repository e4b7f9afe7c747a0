"""A small network on Burgers' equation in JAX, for timing beside ours: one
closure, the loss and the gradient of all parameters, in float64.

The same network and loss as burgers_torch.py, value and gradient in one jit.

  published  derivatives by grad of grad of the sum over points
  forward    by jvp, and jvp of jvp

Examples:
  burgers_jax.py --device cuda --per-axis 51
  burgers_jax.py --device cuda --form forward

The last line of stdout is JSON: {"peer": ..., "ms": median, ...}.
"""

import math

import jax
import jax.numpy as jnp

import burgers_problem as burgers
import common_jax


def make_weights():
    keys = jax.random.split(jax.random.PRNGKey(0), len(burgers.WIDTHS))
    weights = []
    for key, a, b in zip(keys, burgers.WIDTHS, burgers.WIDTHS[1:]):
        bound = 1 / math.sqrt(a)
        w = jax.random.uniform(key, (a, b), jnp.float64, -bound, bound)
        weights.append({"w": w, "b": jnp.zeros(b, jnp.float64)})
    return weights


def field(weights, x, t):
    *inner, last = weights
    y = jnp.concatenate([x, t], -1)
    for layer in inner:
        y = jnp.tanh(y @ layer["w"] + layer["b"])
    return -jnp.sin(math.pi * x) + t * (y @ last["w"] + last["b"])


def nested(weights, x, t):
    """u, u_x, u_t, u_xx as gradients of gradients."""
    def along_x(x):
        return jax.grad(lambda x: field(weights, x, t).sum())(x)

    return (field(weights, x, t), along_x(x),
            jax.grad(lambda t: field(weights, x, t).sum())(t),
            jax.grad(lambda x: along_x(x).sum())(x))


def forward(weights, x, t):
    one = jnp.ones_like(x)

    def along_x(x):
        return jax.jvp(lambda x: field(weights, x, t), (x,), (one,))

    (u, u_x), (_, u_xx) = jax.jvp(along_x, (x,), (one,))
    u_t = jax.jvp(lambda t: field(weights, x, t), (t,), (one,))[1]
    return u, u_x, u_t, u_xx


def make_closure(args):
    # Arguments, not constants: nothing may be computed while it compiles.
    at = {name: [jnp.asarray(a) for a in both]
          for name, both in burgers.points(args.per_axis).items()}
    derivatives = nested if args.form == "published" else forward

    def loss(weights, at):
        ends = [field(weights, *at[name]) for name in ("left", "right")]
        return burgers.loss(*derivatives(weights, *at["inside"]), ends)

    weights = make_weights()
    fast = jax.jit(jax.value_and_grad(loss))
    last = {"answer": None}

    def work():
        last["answer"] = fast(weights, at)

    return work, lambda: jax.block_until_ready(last)


def main():
    args = burgers.arguments(__doc__, common_jax.MODES)
    jax.config.update("jax_enable_x64", True)
    common_jax.run(args, make_closure, burgers.plan(args), args.cases,
                   per_axis=args.per_axis, parameters=burgers.PARAMETERS)


if __name__ == "__main__":
    main()
