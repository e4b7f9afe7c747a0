"""The physics-guided transformer on the wake of a cylinder in JAX, for timing
beside ours: one closure, the loss and the gradient of all parameters.

The same network, sensors, points and loss as pgt_torch.py, value and gradient
in one jit.

  published  derivatives by grad of grad
  forward    by jvp of jvp

Examples:
  pgt_jax.py --device cuda
  pgt_jax.py --device cuda --form forward

The last line of stdout is JSON: {"peer": ..., "ms": median, ...}.
"""

import math

import jax
import jax.numpy as jnp

import common_jax
import pgt_problem as pgt
from pgt_problem import AXES, FIELDS, HEADS, WIDTH


def make_weights():
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 64))

    def matrix(inputs, outputs):
        bound = math.sqrt(6 / (inputs + outputs))
        return jax.random.uniform(next(keys), (inputs, outputs), jnp.float32,
                                  -bound, bound)

    def linear(inputs, outputs):
        return {"w": matrix(inputs, outputs),
                "b": jnp.zeros(outputs, jnp.float32)}

    def norm():
        return {"w": jnp.ones(WIDTH, jnp.float32),
                "b": jnp.zeros(WIDTH, jnp.float32)}

    def square():
        return [matrix(WIDTH, WIDTH) for _ in range(4)]

    def block():
        return {"norm": norm(), "attention": square(),
                "up": linear(WIDTH, pgt.FEED_FORWARD),
                "down": linear(pgt.FEED_FORWARD, WIDTH)}

    width = pgt.DECODER_WIDTH
    weights = {
        "reading": matrix(3, WIDTH), "known": matrix(3, WIDTH),
        "place": linear(3, WIDTH),
        "global_token": jnp.zeros((1, WIDTH), jnp.float32),
        "blocks": [block() for _ in range(pgt.LAYERS)], "norm": norm(),
        "query_in": linear(3, WIDTH), "query_out": linear(WIDTH, WIDTH),
        "cross": square(),
        "films": [linear(2 * WIDTH, 3 * width)
                  for _ in range(pgt.DECODER_LAYERS)],
        "layers": [linear(width if n else 3, width)
                   for n in range(pgt.DECODER_LAYERS)],
        "out": linear(width, 3)}
    count = sum(w.size for w in jax.tree_util.tree_leaves(weights))
    assert count == pgt.PARAMETERS, count
    return weights


def linear(p, x):
    return x @ p["w"] + p["b"]


def norm(p, x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean)**2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * p["w"] + p["b"]


def attend(q, k, v, bias=0.0):
    q, k, v = (x.reshape(len(x), HEADS, -1).transpose(1, 0, 2)
               for x in (q, k, v))
    scores = q @ k.swapaxes(1, 2) / math.sqrt(WIDTH // HEADS) + bias
    y = jax.nn.softmax(scores, axis=-1) @ v
    return y.transpose(1, 0, 2).reshape(-1, WIDTH)


def block(p, tokens, bias):
    x = norm(p["norm"], tokens)
    q, k, v, output = p["attention"]
    return (tokens + attend(x @ q, x @ k, x @ v, bias) @ output
            + linear(p["down"], jax.nn.gelu(linear(p["up"], x),
                                            approximate=False)))


def encode(p, data):
    read = jnp.pad(data["readings"], ((0, 0), (0, 1)))
    known = jnp.pad(jnp.ones_like(data["readings"]), ((0, 0), (0, 1)))
    sensors = (linear(p["place"], pgt.unit(data["places"]))
               + read @ p["reading"] + known @ p["known"])
    tokens = jnp.concatenate([p["global_token"], sensors])
    for one in p["blocks"]:
        tokens = block(one, tokens, data["bias"])
    tokens = norm(p["norm"], tokens)
    _, k, v, _ = p["cross"]
    return tokens[:1], tokens[1:] @ k, tokens[1:] @ v


def decode(p, points, encoded):
    whole, keys, values = encoded
    q, _, _, output = p["cross"]
    x = pgt.unit(points)
    phi = linear(p["query_out"], jnp.tanh(linear(p["query_in"], x)))
    answer = attend(phi @ q, keys, values) @ output
    condition = jnp.concatenate(
        [answer, jnp.broadcast_to(whole, (len(x), WIDTH))], -1)
    for film, layer in zip(p["films"], p["layers"]):
        gamma, beta, omega = jnp.split(linear(film, condition), 3, -1)
        x = jnp.sin(pgt.FREQUENCY * omega * (gamma * linear(layer, x) + beta))
    return linear(p["out"], x)


def nested(fields, points):
    def gradient(u):
        return jax.grad(lambda x: u(x).sum())

    d = {}
    for f, name in enumerate(FIELDS):
        def one(x, f=f):
            return fields(x)[:, f]

        d[name] = one(points)
        first = gradient(one)(points)
        for a, axis in enumerate(AXES):
            d[f"{name}_{axis}"] = first[:, a]
            if name != "p" and axis != "t":
                d[f"{name}_{axis}{axis}"] = gradient(
                    lambda x, one=one, a=a: gradient(one)(x)[:, a])(
                        points)[:, a]
    return d


def forward_mode(fields, points):
    d = {}
    for a, axis in enumerate(AXES):
        step = jnp.zeros_like(points).at[:, a].set(1)

        def along(x, step=step):
            return jax.jvp(fields, (x,), (step,))

        if axis == "t":
            value, first = along(points)
        else:
            (value, first), (_, second) = jax.jvp(along, (points,), (step,))
        for f, name in enumerate(FIELDS):
            d[name] = value[:, f]
            d[f"{name}_{axis}"] = first[:, f]
            if axis != "t":
                d[f"{name}_{axis}{axis}"] = second[:, f]
    return d


def make_closure(args):
    derivatives = nested if args.form == "published" else forward_mode

    def loss(weights, data):
        encoded = encode(weights, data)
        d = derivatives(lambda x: decode(weights, x, encoded), data["points"])
        return pgt.loss(decode(weights, data["places"], encoded),
                        data["readings"], d)

    # Arguments, not constants: nothing may be computed while it compiles.
    data = {name: jnp.asarray(a) for name, a in pgt.arrays().items()}
    weights = make_weights()
    fast = jax.jit(jax.value_and_grad(loss))
    last = {"answer": None}

    def work():
        last["answer"] = fast(weights, data)

    return work, lambda: jax.block_until_ready(last)


def main():
    args = pgt.arguments(__doc__, common_jax.MODES)
    common_jax.run(args, make_closure, pgt.plan(args), args.cases,
                   parameters=pgt.PARAMETERS)


if __name__ == "__main__":
    main()
