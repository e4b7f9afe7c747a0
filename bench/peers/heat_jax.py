"""The heat transformer of document 000 in JAX, for timing beside ours.

The same network and the same step as heat_torch.py: value, gradient and Adam
in one jit, which may write over weights and moments. A rollout is the
document's own protocol in one jit.

Examples:
  heat_jax.py step --form collapsed --mask causal --device cuda
  heat_jax.py rollout --mask causal --device cuda --precision tf32 --batch 48

The last line of stdout is JSON: {"peer": ..., "ms": median, ...}.
"""

import math

import jax
import jax.numpy as jnp

import common_jax
import heat
from heat import COLS, FRAMES, HEADS, HIDDEN, LAYERS, ROWS, WIDTH

RATE, BETA1, BETA2, EPSILON = 1e-4, 0.9, 0.999, 1e-8


def make_weights(form):
    """As torch.nn.Linear begins: uniform on 1/sqrt(inputs)."""
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 8 * LAYERS + 8))

    def matrix(inputs, outputs):
        bound = 1 / math.sqrt(inputs)
        return jax.random.uniform(next(keys), (inputs, outputs), jnp.float32,
                                  -bound, bound)

    def linear(inputs, outputs):
        return {"w": matrix(inputs, outputs), "b": jnp.zeros(outputs)}

    def norm():
        return {"w": jnp.ones(WIDTH), "b": jnp.zeros(WIDTH)}

    features = WIDTH // 2 if form == "published" else 1
    layers = [{"norm1": norm(), "norm2": norm(),
               "q": matrix(WIDTH, WIDTH), "k": matrix(WIDTH, WIDTH),
               "v": matrix(WIDTH, WIDTH), "o": matrix(WIDTH, WIDTH),
               "up": linear(WIDTH, HIDDEN), "down": linear(HIDDEN, WIDTH)}
              for _ in range(LAYERS)]
    return {"embed": linear(ROWS * COLS * features, WIDTH),
            "alpha": linear(1, WIDTH), "layers": layers,
            "norm1": norm(), "norm2": norm(),
            "output": linear(WIDTH, ROWS * COLS)}


def linear(p, x):
    return x @ p["w"] + p["b"]


def norm(p, x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean)**2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["w"] + p["b"]


def attention(p, x, mask):
    b, t, _ = x.shape
    q, k, v = ((x @ p[name]).reshape(b, t, HEADS, -1).transpose(0, 2, 1, 3)
               for name in ("q", "k", "v"))
    scores = q @ k.swapaxes(2, 3) / math.sqrt(WIDTH // HEADS) + mask
    y = jax.nn.softmax(scores, axis=-1) @ v
    return y.transpose(0, 2, 1, 3).reshape(b, t, WIDTH) @ p["o"]


def make_forward(args):
    mask = jnp.asarray(heat.additive_mask(args.mask))
    time = jnp.asarray(heat.encoding(FRAMES, WIDTH))
    space = jnp.asarray(heat.space_encoding())

    def forward(p, frames, alpha):
        b = frames.shape[0]
        x = frames
        if args.form == "published":
            x = x[..., None] + space
        x = linear(p["embed"], x.reshape(b, FRAMES, -1))
        x = x + time + linear(p["alpha"], alpha[:, None])[:, None]
        for layer in p["layers"]:
            x = x + attention(layer, norm(layer["norm1"], x), mask)
            hidden = jax.nn.relu(linear(layer["up"], norm(layer["norm2"], x)))
            x = x + linear(layer["down"], hidden)
        x = norm(p["norm2"], norm(p["norm1"], x))
        return linear(p["output"], x).reshape(frames.shape)

    return forward


def adam(weights, gradient, m, v, count):
    tree_map = jax.tree_util.tree_map
    m = tree_map(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, gradient)
    v = tree_map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, gradient)
    c1, c2 = 1 - BETA1**count, 1 - BETA2**count
    weights = tree_map(
        lambda w, m, v: w - RATE * (m / c1) / (jnp.sqrt(v / c2) + EPSILON),
        weights, m, v)
    return weights, m, v


def make_step(args):
    forward = make_forward(args)
    frames, alpha, dt = map(jnp.asarray, heat.plates(args.batch))

    def loss(weights, frames, alpha, dt):
        return heat.loss(forward(weights, frames, alpha), frames, alpha, dt)

    def step(state, frames, alpha, dt):
        weights, m, v, count = state
        count = count + 1
        value, gradient = jax.value_and_grad(loss)(weights, frames, alpha, dt)
        weights, m, v = adam(weights, gradient, m, v, count)
        return (weights, m, v, count), value

    fast = jax.jit(step, donate_argnums=0)
    weights = make_weights(args.form)
    zeros = jax.tree_util.tree_map(jnp.zeros_like, weights)
    # Two trees of zeros, since both are donated.
    state = (weights, zeros, jax.tree_util.tree_map(jnp.zeros_like, weights),
             jnp.zeros((), jnp.float32))
    last = {"state": state, "value": None}

    def work():
        last["state"], last["value"] = fast(last["state"], frames, alpha, dt)

    return work, lambda: jax.block_until_ready(last)


def make_rollout(args):
    forward = make_forward(args)
    frames, alpha, _ = map(jnp.asarray, heat.plates(args.batch))
    weights = make_weights(args.form)
    passes = math.ceil((FRAMES - heat.VISIBLE) / heat.STRIDE)

    def rollout(weights, frames, alpha):
        def one(n, x):
            # The last slice would end after the last frame; JAX moves it back.
            t = heat.VISIBLE + heat.STRIDE * n
            new = jax.lax.dynamic_slice_in_dim(
                forward(weights, x, alpha), t, heat.STRIDE, axis=1)
            return jax.lax.dynamic_update_slice_in_dim(x, new, t, axis=1)

        return jax.lax.fori_loop(0, passes, one, frames)

    fast = jax.jit(rollout)
    last = {"frames": frames}

    def work():
        last["frames"] = fast(weights, frames, alpha)

    return work, lambda: jax.block_until_ready(last)


def main():
    args = heat.arguments(__doc__, common_jax.MODES)
    make = make_step if args.what == "step" else make_rollout
    common_jax.run(args, make, heat.plan(args), args.batch, mask=args.mask)


if __name__ == "__main__":
    main()
