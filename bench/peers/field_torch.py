"""Networks for any field in PyTorch, for timing beside ours.

  fno         Fourier neural operator over windows of frames; a training step
              forecasts some frames from its own, with gradients through all
  space_time  transformer over patches of frames: attention over space, then
              over the last frames; a training step answers all frames at once,
              a forecast keeps keys and values

What they are told is random: the work does not depend on it. The loss is the
mean square error, the optimiser Adam.

  published   spectral layers by fast transforms
  products    by matrix products with the few waves that are kept

  eager       as it is written
  graph       the whole step or forecast as one CUDA graph
  compiled    torch.compile of loss or forecast; Adam fused

Examples:
  field_torch.py step
  field_torch.py predict --model space_time

The last line of stdout is JSON: {"peer": ..., "ms": median, ...}.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

import field
from common_torch import MODES, captured, compiled, run, set_up, training_step


def attention(q, k, v, mask=None):
    """(…, H, T, D)"""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = q / math.sqrt(q.shape[-1]) @ k.transpose(-1, -2)
    return torch.softmax(scores if mask is None else scores + mask, -1) @ v


class Spectral(nn.Module):
    """(B, W, nodes…), one matrix for each kept frequency."""

    def __init__(self, args):
        super().__init__()
        self.modes, self.nodes = args.modes, args.nodes
        self.products = args.form == "products"
        w = args.width
        self.weight = nn.Parameter(
            torch.rand(field.kept_count(args), w, w, 2) / w**2)
        to, back = field.kept_waves(args)
        for name, waves in (("to", to), ("back", back)):
            last = torch.from_numpy(waves[-1])
            parts = [last.real, last.imag]
            self.register_buffer(name + "_last",
                                 torch.cat(parts, 1 if name == "to" else 0))
            if args.axes == 2:
                self.register_buffer(name + "_first",
                                     torch.from_numpy(waves[0]))

    def mixed(self, kept):  # (B, W, kept…)
        shape = kept.shape
        y = torch.bmm(kept.flatten(2).permute(2, 0, 1),
                      torch.view_as_complex(self.weight))
        return y.permute(1, 2, 0).reshape(shape)

    def by_products(self, x):
        m = self.modes
        parts = x @ self.to_last
        y = torch.complex(parts[..., :m], parts[..., m:])
        if len(self.nodes) == 2:
            y = self.to_first.t() @ y
        y = self.mixed(y)
        if len(self.nodes) == 2:
            y = self.back_first.t() @ y
        return torch.cat([y.real, -y.imag], -1) @ self.back_last

    def forward(self, x):
        if self.products:
            return self.by_products(x)
        m = self.modes
        if len(self.nodes) == 1:
            y = self.mixed(torch.fft.rfft(x)[..., :m])
            return torch.fft.irfft(y, n=self.nodes[0])
        y = torch.fft.rfft2(x)
        y = self.mixed(torch.cat([y[..., :m, :m], y[..., -m:, :m]], -2))
        middle = y.new_zeros(*y.shape[:2], self.nodes[0] - 2 * m, m)
        y = torch.cat([y[..., :m, :], middle, y[..., m:, :]], -2)
        return torch.fft.irfft2(y, s=self.nodes)


class Fno(nn.Module):
    def __init__(self, args):
        super().__init__()
        conv = nn.Conv1d if args.axes == 1 else nn.Conv2d
        w, hidden = args.width, field.PER_WIDTH * args.width
        self.lift = conv(args.given, w, 1)
        self.spectral = nn.ModuleList(Spectral(args)
                                      for _ in range(args.layers))
        self.pointwise = nn.ModuleList(conv(w, w, 1)
                                       for _ in range(args.layers))
        self.hidden, self.out = conv(w, hidden, 1), conv(hidden, 1, 1)
        for name in ("mean", "deviation", "change"):
            self.register_buffer(name, torch.ones(1))

    def answer(self, window):  # (B, given, nodes…)
        x = self.lift((window - self.mean) / self.deviation)
        for n, (spectral, pointwise) in enumerate(
                zip(self.spectral, self.pointwise)):
            x = spectral(x) + pointwise(x)
            if n + 1 < len(self.spectral):
                x = F.gelu(x)
        return self.out(F.gelu(self.hidden(x)))

    def rollout(self, window, steps):
        """(B, given, nodes…, 1) → (B, steps, nodes…, 1), one channel."""
        window = window.squeeze(-1)
        frames = []
        for _ in range(steps):
            frame = window[:, -1:] + self.change * self.answer(window)
            frames.append(frame)
            window = torch.cat([window[:, 1:], frame], 1)
        return torch.cat(frames, 1).unsqueeze(-1)

    def trained_on(self, frames, given, count):
        """What training forecasts of (B, given + count, …)."""
        return self.rollout(frames[:, :given], count)


def rotated(x, cos, sin):
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Block(nn.Module):
    """(B, T, S, W)"""

    def __init__(self, args):
        super().__init__()
        w = args.width
        self.heads, self.memory = args.heads, args.given
        self.norms = nn.ModuleList(nn.LayerNorm(w) for _ in range(3))
        self.space, self.time = (nn.Linear(w, 3 * w, bias=False)
                                 for _ in range(2))
        self.space_out, self.time_out = (nn.Linear(w, w, bias=False)
                                         for _ in range(2))
        self.first = nn.Linear(w, field.PER_WIDTH * w)
        self.second = nn.Linear(field.PER_WIDTH * w, w)

    def parts(self, linear, x):
        """Queries, keys, values (B, T, S, H, D)."""
        return linear(x).unflatten(-1, (3, self.heads, -1)).unbind(-3)

    def over_space(self, x, turns):
        q, k, v = (y.transpose(2, 3) for y in self.parts(self.space, x))
        y = attention(rotated(q, *turns), rotated(k, *turns), v)
        return self.space_out(y.transpose(2, 3).flatten(-2))

    def over_time(self, x, turns, mask, cache):
        # (B, S, H, T, D)
        q, k, v = (y.permute(0, 2, 3, 1, 4) for y in self.parts(self.time, x))
        q, k = rotated(q, *turns), rotated(k, *turns)
        if cache is not None:
            if cache:
                k = torch.cat([cache["k"], k], 3)
                v = torch.cat([cache["v"], v], 3)
            cache["k"], cache["v"] = (y[..., -(self.memory - 1):, :]
                                      for y in (k, v))
        y = attention(q, k, v, mask)
        return self.time_out(y.permute(0, 3, 1, 2, 4).flatten(-2))

    def forward(self, x, space, time, mask, cache=None):
        x = x + self.over_space(self.norms[0](x), space)
        x = x + self.over_time(self.norms[1](x), time, mask, cache)
        hidden = F.gelu(self.first(self.norms[2](x)))
        return x + self.second(hidden)


class SpaceTime(nn.Module):
    def __init__(self, args):
        super().__init__()
        w, numbers = args.width, args.patch**args.axes
        self.args = args
        self.embed = nn.Linear(numbers, w)
        self.blocks = nn.ModuleList(Block(args) for _ in range(args.layers))
        self.norm, self.out = nn.LayerNorm(w), nn.Linear(w, numbers)
        for name in ("mean", "deviation", "change"):
            self.register_buffer(name, torch.ones(1))
        # Waves of all places and times are there before the work begins.
        pairs = w // args.heads // 2
        frames = args.given + max(args.frames, args.steps)
        for name, angles in (
                ("space", field.space_angles(args, pairs)),
                ("time", field.time_angles(0, frames, pairs))):
            angles = torch.from_numpy(angles)
            self.register_buffer(name, torch.stack([angles.cos(),
                                                    angles.sin()]))
        self.register_buffer(
            "mask", torch.from_numpy(field.band(frames, args.given)))

    def patches(self, frames):  # (B, T, nodes…, 1) → (B, T, S, p…)
        p, (b, t) = self.args.patch, frames.shape[:2]
        if self.args.axes == 1:
            return frames.reshape(b, t, -1, p)
        rows, cols = (n // p for n in self.args.nodes)
        return (frames.view(b, t, rows, p, cols, p).transpose(3, 4)
                .reshape(b, t, rows * cols, p * p))

    def fields(self, patches):
        p, (b, t) = self.args.patch, patches.shape[:2]
        if self.args.axes == 2:
            rows, cols = (n // p for n in self.args.nodes)
            patches = patches.view(b, t, rows, cols, p, p).transpose(3, 4)
        return patches.reshape(b, t, *self.args.nodes, 1)

    def answers(self, frames, before, caches, wanted):
        x = self.embed(self.patches((frames - self.mean) / self.deviation))
        t = frames.shape[1]
        time = self.time[:, before:before + t]
        mask = self.mask[:t, :t] if t > 1 else None
        for n, block in enumerate(self.blocks):
            x = block(x, self.space, time, mask, caches and caches[n])
        return self.fields(self.out(self.norm(x[:, -wanted:])))

    def rollout(self, given, steps):
        caches = [{} for _ in self.blocks]
        frame, frames, seen, before = given[:, -1:], [], given, 0
        for _ in range(steps):
            answer = self.answers(seen, before, caches, 1)
            before += seen.shape[1]
            frame = seen = frame + self.change * answer
            frames.append(frame)
        return torch.cat(frames, 1)

    def trained_on(self, frames, given, count):
        seen = frames[:, :-1]
        answers = self.answers(seen, 0, None, count)
        return frames[:, given - 1:-1] + self.change * answers


def step(args, model, wait):
    window = args.given + args.frames
    rows = torch.from_numpy(field.fields(args, 4 * args.batch, window))
    rows = rows.to(args.device)

    def loss_at(at):
        frames = rows[at]
        answer = model.trained_on(frames, args.given, args.frames)
        return F.mse_loss(answer, frames[:, args.given:])

    run(args, lambda mode: training_step(args, model, loss_at, args.batch,
                                         len(rows), mode),
        wait, field.plan(args), args.batch)


@torch.no_grad()
def predict(args, model, wait):
    given = torch.from_numpy(field.fields(args, 1, args.given)).to(args.device)

    def make(mode):
        def forecast():
            return model.rollout(given, args.steps)
        if mode:
            return compiled(forecast, mode)
        return captured(forecast)[0].replay if args.mode == "graph" \
            else forecast

    run(args, make, wait, field.plan(args), 1)


def main():
    args = field.arguments(__doc__, MODES)
    wait = set_up(args)
    model = {"fno": Fno, "space_time": SpaceTime}[args.model](args)
    field.expect_parameters(args, sum(p.numel() for p in model.parameters()))
    model.to(args.device)
    (step if args.what == "step" else predict)(args, model, wait)


if __name__ == "__main__":
    main()
