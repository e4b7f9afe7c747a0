"""PINNsFormer on the wave equation of document 003 in JAX, for timing beside
ours: one closure, the loss and the gradient of all parameters.

The same network, points and loss as wave_torch.py, value and gradient in one
jit.

  published  derivatives by grad of grad of the sum over tokens
  forward    by jvp of jvp

Examples:
  wave_jax.py --device cuda --per-axis 101
  wave_jax.py --device cuda --per-axis 51 --form forward

The last line of stdout is JSON: {"peer": ..., "ms": median, ...}.
"""

import math

import jax
import jax.numpy as jnp

import common_jax
import wave_problem as wave
from wave_problem import FEED_FORWARD, HEADS, HIDDEN, WIDTH


def make_weights():
    """Xavier's uniform matrices, biases 0.01, waves that begin as 1."""
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 32))

    def linear(inputs, outputs):
        bound = math.sqrt(6 / (inputs + outputs))
        w = jax.random.uniform(next(keys), (inputs, outputs), jnp.float32,
                               -bound, bound)
        return {"w": w, "b": jnp.full(outputs, 0.01, jnp.float32)}

    def waves():
        return {"w1": jnp.ones(1, jnp.float32), "w2": jnp.ones(1, jnp.float32)}

    def mlp(*widths):
        return {"linear": [linear(*both) for both in zip(widths, widths[1:])],
                "waves": [waves() for _ in widths[2:]]}

    def block():
        return {"before_attention": waves(), "before_mlp": waves(),
                "after": waves(), "query": linear(WIDTH, WIDTH),
                "key_value": linear(WIDTH, 2 * WIDTH),
                "output": linear(WIDTH, WIDTH),
                "mlp": mlp(WIDTH, FEED_FORWARD, FEED_FORWARD, WIDTH)}

    weights = {"embedding": linear(2, WIDTH), "encoder": block(),
               "decoder": block(), "head": mlp(WIDTH, HIDDEN, HIDDEN, 1)}
    count = sum(w.size for w in jax.tree_util.tree_leaves(weights))
    assert count == wave.PARAMETERS, count
    return weights


def linear(p, x):
    return x @ p["w"] + p["b"]


def waves(p, x):
    return p["w1"] * jnp.sin(x) + p["w2"] * jnp.cos(x)


def mlp(p, x):
    *inner, last = p["linear"]
    for layer, wave_weights in zip(inner, p["waves"]):
        x = waves(wave_weights, linear(layer, x))
    return linear(last, x)


def attention(p, x, source):
    n, t, _ = x.shape
    q, k, v = (y.reshape(n, t, HEADS, -1).transpose(0, 2, 1, 3) for y in
               (linear(p["query"], x),
                *jnp.split(linear(p["key_value"], source), 2, axis=-1)))
    scores = q @ k.swapaxes(2, 3) / math.sqrt(WIDTH // HEADS)
    y = jax.nn.softmax(scores, axis=-1) @ v
    return linear(p["output"], y.transpose(0, 2, 1, 3).reshape(n, t, WIDTH))


def block(p, x, source=None):
    """One block and the activation after it."""
    query = waves(p["before_attention"], x)
    x = x + attention(p, query, query if source is None else source)
    return waves(p["after"], x + mlp(p["mlp"], waves(p["before_mlp"], x)))


def network(p, x, t):
    tokens = linear(p["embedding"], jnp.concatenate([x, t], -1))
    encoded = block(p["encoder"], tokens)
    return mlp(p["head"], block(p["decoder"], tokens, encoded))


def gradient(u):
    """Of the sum over tokens, as the document's scripts."""
    return jax.grad(lambda x: u(x).sum())


def derivative(u):
    """As all tokens of a window move by one."""
    return lambda x: jax.jvp(u, (x,), (jnp.ones_like(x),))[1]


def make_loss(form):
    d = gradient if form == "published" else derivative

    def loss(weights, at, initial):
        def along_x(x, t):
            return d(d(lambda x: network(weights, x, t)))(x)

        def along_t(x, t):
            return d(d(lambda t: network(weights, x, t)))(t)

        x, t = at["start"]
        answers = (along_x(*at["inside"]), along_t(*at["inside"]),
                   network(weights, x, t),
                   d(lambda t: network(weights, x, t))(t))
        sides = [network(weights, *at[name])[..., 0]
                 for name in ("left", "right")]
        return wave.loss(*(u[..., 0] for u in answers), initial, sides)

    return loss


def make_closure(args):
    arrays = wave.points(args.per_axis)
    # Arguments, not constants: nothing may be computed while it compiles.
    at = {name: [jnp.asarray(a) for a in both]
          for name, both in arrays.items()}
    initial = jnp.asarray(wave.initial_value(arrays["start"][0]))
    weights = make_weights()
    fast = jax.jit(jax.value_and_grad(make_loss(args.form)))
    last = {"answer": None}

    def work():
        last["answer"] = fast(weights, at, initial)

    return work, lambda: jax.block_until_ready(last)


def main():
    args = wave.arguments(__doc__, common_jax.MODES)
    common_jax.run(args, make_closure, wave.plan(args), args.cases,
                   per_axis=args.per_axis, parameters=wave.PARAMETERS)


if __name__ == "__main__":
    main()
