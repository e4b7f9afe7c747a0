"""Networks for any field in JAX, for timing beside ours: those of
field_torch.py, a training step with Adam or a forecast in one jit, frames of a
forecast by a scan.

  published   spectral layers by fast transforms
  products    by matrix products with the few waves that are kept

Examples:
  field_jax.py step --device cuda
  field_jax.py predict --model space_time --device cuda

The last line of stdout is JSON: {"peer": ..., "ms": median, ...}.
"""

import math

import jax
import jax.numpy as jnp

import common_jax
import field

RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
NORM_EPSILON = 1e-5


def linear_weights(key, inputs, outputs, bias=True):
    bound = 1 / math.sqrt(inputs)
    k1, k2 = jax.random.split(key)
    w = jax.random.uniform(k1, (inputs, outputs), jnp.float32, -bound, bound)
    if not bias:
        return {"w": w}
    return {"w": w, "b": jax.random.uniform(k2, (outputs,), jnp.float32,
                                            -bound, bound)}


def linear(p, x):
    y = x @ p["w"]
    return y + p["b"] if "b" in p else y


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


class Fno:
    def __init__(self, args):
        self.args = args
        self.waves = [[jnp.asarray(w) for w in ways]
                      for ways in field.kept_waves(args)]

    def weights(self):
        a = self.args
        keys = iter(jax.random.split(jax.random.PRNGKey(0), 3 + 2 * a.layers))
        w, hidden = a.width, field.PER_WIDTH * a.width
        shape = (field.kept_count(a), w, w, 2)
        return {"lift": linear_weights(next(keys), a.given, w),
                "spectral": [jax.random.uniform(next(keys), shape) / w**2
                             for _ in range(a.layers)],
                "pointwise": [linear_weights(next(keys), w, w)
                              for _ in range(a.layers)],
                "hidden": linear_weights(next(keys), w, hidden),
                "out": linear_weights(next(keys), hidden, 1)}

    def mixed(self, weight, kept):  # (B, kept…, W)
        shape = kept.shape
        y = jnp.einsum("bki,kio->bko",
                       kept.reshape(shape[0], -1, shape[-1]),
                       jax.lax.complex(weight[..., 0], weight[..., 1]))
        return y.reshape(shape)

    def by_products(self, weight, x):
        to, back = self.waves
        y = jnp.einsum("b...ni,nk->b...ki", x, to[-1].real) + 1j * jnp.einsum(
            "b...ni,nk->b...ki", x, to[-1].imag)
        if self.args.axes == 2:
            y = jnp.einsum("bnki,nm->bmki", y, to[0])
        y = self.mixed(weight, y)
        if self.args.axes == 2:
            y = jnp.einsum("bmki,mn->bnki", y, back[0])
        return (jnp.einsum("b...ki,kn->b...ni", y.real, back[-1].real) -
                jnp.einsum("b...ki,kn->b...ni", y.imag, back[-1].imag))

    def spectral(self, weight, x):  # (B, nodes…, W)
        if self.args.form == "products":
            return self.by_products(weight, x)
        m, nodes = self.args.modes, self.args.nodes
        if self.args.axes == 1:
            y = self.mixed(weight, jnp.fft.rfft(x, axis=1)[:, :m])
            return jnp.fft.irfft(y, n=nodes[0], axis=1)
        y = jnp.fft.rfft2(x, axes=(1, 2))
        y = self.mixed(weight, jnp.concatenate([y[:, :m, :m],
                                                y[:, -m:, :m]], 1))
        middle = jnp.zeros((len(y), nodes[0] - 2 * m, *y.shape[2:]), y.dtype)
        y = jnp.concatenate([y[:, :m], middle, y[:, m:]], 1)
        return jnp.fft.irfft2(y, s=nodes, axes=(1, 2))

    def answer(self, p, window):  # (B, nodes…, given)
        x = linear(p["lift"], window)
        last = len(p["spectral"]) - 1
        for n, (spectral, pointwise) in enumerate(
                zip(p["spectral"], p["pointwise"])):
            x = self.spectral(spectral, x) + linear(pointwise, x)
            x = gelu(x) if n < last else x
        return linear(p["out"], gelu(linear(p["hidden"], x)))

    def rollout(self, p, given, steps):
        """(B, given, nodes…, 1) → (B, steps, nodes…, 1), one channel."""
        def one(window, _):
            frame = window[..., -1:] + self.answer(p, window)
            return jnp.concatenate([window[..., 1:], frame], -1), frame
        window = jnp.moveaxis(given[..., 0], 1, -1)
        _, frames = jax.lax.scan(one, window, None, steps)
        return jnp.moveaxis(frames, 0, 1)

    def trained_on(self, p, frames):
        """What training forecasts of whole windows."""
        return self.rollout(p, frames[:, :self.args.given], self.args.frames)


def norm(p, x):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + NORM_EPSILON) * p["w"] + p["b"]


def attention(q, k, v, mask=0):  # (…, T, D)
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + mask
    return jax.nn.softmax(scores, -1) @ v


def rotated(x, angles):
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    a, b = x[..., 0::2], x[..., 1::2]
    pairs = jnp.stack([a * cos - b * sin, a * sin + b * cos], -1)
    return pairs.reshape(x.shape)


class SpaceTime:
    def __init__(self, args):
        self.args = args
        pairs = args.width // args.heads // 2
        self.space = jnp.asarray(field.space_angles(args, pairs))
        frames = args.given + max(args.frames, args.steps)
        self.time = jnp.asarray(field.time_angles(0, frames, pairs))
        self.mask = jnp.asarray(field.band(frames, args.given))

    def weights(self):
        a = self.args
        w, hidden = a.width, field.PER_WIDTH * a.width
        numbers = a.patch**a.axes
        keys = iter(jax.random.split(jax.random.PRNGKey(0), 2 + 6 * a.layers))

        def norm_weights():
            return {"w": jnp.ones(w), "b": jnp.zeros(w)}

        def block():
            return {"norms": [norm_weights() for _ in range(3)],
                    "space": linear_weights(next(keys), w, 3 * w, bias=False),
                    "time": linear_weights(next(keys), w, 3 * w, bias=False),
                    "space_out": linear_weights(next(keys), w, w, bias=False),
                    "time_out": linear_weights(next(keys), w, w, bias=False),
                    "first": linear_weights(next(keys), w, hidden),
                    "second": linear_weights(next(keys), hidden, w)}

        return {"embed": linear_weights(next(keys), numbers, w),
                "blocks": [block() for _ in range(a.layers)],
                "norm": norm_weights(),
                "out": linear_weights(next(keys), w, numbers)}

    def parts(self, p, x):
        """Queries, keys, values (B, T, S, H, D)."""
        y = linear(p, x)
        y = y.reshape(*y.shape[:-1], 3, self.args.heads, -1)
        return [y[..., n, :, :] for n in range(3)]

    def over_space(self, p, x):
        q, k, v = (y.swapaxes(2, 3) for y in self.parts(p["space"], x))
        y = attention(rotated(q, self.space), rotated(k, self.space), v)
        return linear(p["space_out"], y.swapaxes(2, 3).reshape(x.shape))

    def over_time(self, p, x, angles, cache):
        """Of all frames at once if the cache is None; else of frames that
        follow those of the cache, which may be empty."""
        q, k, v = (y.transpose(0, 2, 3, 1, 4)
                   for y in self.parts(p["time"], x))  # (B, S, H, T, D)
        q, k = rotated(q, angles), rotated(k, angles)
        if cache:
            k = jnp.concatenate([cache[0], k], 3)
            v = jnp.concatenate([cache[1], v], 3)
        frames = x.shape[1]
        mask = self.mask[:frames, :frames] if frames > 1 else 0
        y = attention(q, k, v, mask)
        y = y.transpose(0, 3, 1, 2, 4).reshape(x.shape)
        kept = self.args.given - 1
        return (linear(p["time_out"], y),
                (k[..., -kept:, :], v[..., -kept:, :]))

    def answers(self, p, frames, angles, caches, wanted):
        x = linear(p["embed"], self.patches(frames))
        after = []
        for n, block in enumerate(p["blocks"]):
            x = x + self.over_space(block, norm(block["norms"][0], x))
            y, cache = self.over_time(block, norm(block["norms"][1], x),
                                      angles, caches and caches[n])
            after.append(cache)
            x = x + y
            hidden = gelu(linear(block["first"], norm(block["norms"][2], x)))
            x = x + linear(block["second"], hidden)
        answer = linear(p["out"], norm(p["norm"], x[:, -wanted:]))
        return self.fields(answer), after

    def patches(self, frames):  # (B, T, nodes…, 1) → (B, T, S, p…)
        p, (b, t) = self.args.patch, frames.shape[:2]
        if self.args.axes == 1:
            return frames.reshape(b, t, -1, p)
        rows, cols = (n // p for n in self.args.nodes)
        return (frames.reshape(b, t, rows, p, cols, p).swapaxes(3, 4)
                .reshape(b, t, rows * cols, p * p))

    def fields(self, patches):
        p, (b, t) = self.args.patch, patches.shape[:2]
        if self.args.axes == 2:
            rows, cols = (n // p for n in self.args.nodes)
            patches = patches.reshape(b, t, rows, cols, p, p).swapaxes(3, 4)
        return patches.reshape(b, t, *self.args.nodes, 1)

    def rollout(self, p, given, steps):
        before = given.shape[1]
        answer, caches = self.answers(p, given, self.time[:before], None, 1)
        first = given[:, -1:] + answer

        def one(state, n):
            frame, caches = state
            angles = jax.lax.dynamic_slice_in_dim(self.time, before + n, 1)
            answer, caches = self.answers(p, frame, angles, caches, 1)
            frame = frame + answer
            return (frame, caches), frame[:, 0]

        _, frames = jax.lax.scan(one, (first, caches), jnp.arange(steps - 1))
        return jnp.concatenate([first, jnp.moveaxis(frames, 0, 1)], 1)

    def trained_on(self, p, frames):
        a = self.args
        seen = frames[:, :-1]
        answers, _ = self.answers(p, seen, self.time[:seen.shape[1]], None,
                                  a.frames)
        return frames[:, a.given - 1:-1] + answers


def adam(weights, gradient, m, v, count):
    tree_map = jax.tree_util.tree_map
    m = tree_map(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, gradient)
    v = tree_map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, gradient)
    c1, c2 = 1 - BETA1**count, 1 - BETA2**count
    weights = tree_map(
        lambda w, m, v: w - RATE * (m / c1) / (jnp.sqrt(v / c2) + EPSILON),
        weights, m, v)
    return weights, m, v


def make_step(args, net, weights):
    frames = jnp.asarray(field.fields(args, args.batch,
                                      args.given + args.frames))

    def loss(weights, frames):
        answer = net.trained_on(weights, frames)
        return jnp.square(answer - frames[:, args.given:]).mean()

    def step(state, frames):
        weights, m, v, count = state
        count = count + 1
        value, gradient = jax.value_and_grad(loss)(weights, frames)
        return (*adam(weights, gradient, m, v, count), count), value

    fast = jax.jit(step, donate_argnums=0)
    # Two trees of zeros, since both are donated.
    m, v = (jax.tree_util.tree_map(jnp.zeros_like, weights) for _ in range(2))
    last = {"state": (weights, m, v, jnp.zeros((), jnp.float32)),
            "value": None}

    def work():
        last["state"], last["value"] = fast(last["state"], frames)

    return work, lambda: jax.block_until_ready(last)


def make_predict(args, net, weights):
    given = jnp.asarray(field.fields(args, 1, args.given))
    fast = jax.jit(lambda p, x: net.rollout(p, x, args.steps))
    last = {"frames": None}

    def work():
        last["frames"] = fast(weights, given)

    return work, lambda: jax.block_until_ready(last)


def make(args):
    net = {"fno": Fno, "space_time": SpaceTime}[args.model](args)
    weights = net.weights()
    leaves = jax.tree_util.tree_leaves(weights)
    field.expect_parameters(args, sum(w.size for w in leaves))
    work = make_step if args.what == "step" else make_predict
    return work(args, net, weights)


def main():
    args = field.arguments(__doc__, common_jax.MODES)
    common_jax.run(args, make, field.plan(args), args.cases)


if __name__ == "__main__":
    main()
