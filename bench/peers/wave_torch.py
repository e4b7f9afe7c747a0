"""PINNsFormer on the wave equation of document 003 in PyTorch, for timing
beside ours: one closure, the loss and the gradient of all parameters.

Written from the document's description: windows of 5 tokens, an encoder and a
decoder block of width 32, activations w1 sin x + w2 cos x.

  published  u_x = grad(u, x, ones), u_xx = grad(u_x, x, ones), and so for t,
             each by torch.autograd.grad with create_graph
  forward    each by torch.func.jvp of jvp

  eager      as it is written
  graph      the whole closure as one CUDA graph
  compiled   torch.compile of the loss, in the faster of the modes
             reduce-overhead and max-autotune; `published` by torch.func.grad,
             which it can read

Examples:
  wave_torch.py --per-axis 51
  wave_torch.py --device cuda --per-axis 101 --form forward --mode graph

The last line of stdout is JSON: {"peer": ..., "ms": median, ...}.
"""

import math

import torch
from torch import nn

try:
    from torch import func
except ImportError:  # before PyTorch 2
    import functorch as func

import wave_problem as wave
from common_torch import MODES, closure_of, run, set_up
from wave_problem import FEED_FORWARD, HEADS, HIDDEN, WIDTH


class Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.ones(1))
        self.w2 = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.w1 * torch.sin(x) + self.w2 * torch.cos(x)


def mlp(*widths):
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs), Waves()]
    return nn.Sequential(*layers[:-1])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key_value = nn.Linear(WIDTH, 2 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, source):
        n, t, _ = x.shape
        q, k, v = (y.view(n, t, HEADS, -1).transpose(1, 2) for y in
                   (self.query(x), *self.key_value(source).chunk(2, -1)))
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        y = torch.softmax(scores, -1) @ v
        return self.output(y.transpose(1, 2).reshape(n, t, WIDTH))


class Block(nn.Module):
    """One block and the activation after it."""

    def __init__(self):
        super().__init__()
        self.before_attention, self.before_mlp = Waves(), Waves()
        self.attention = Attention()
        self.mlp = mlp(WIDTH, FEED_FORWARD, FEED_FORWARD, WIDTH)
        self.after = Waves()

    def forward(self, x, source=None):
        query = self.before_attention(x)
        x = x + self.attention(query, query if source is None else source)
        return self.after(x + self.mlp(self.before_mlp(x)))


class PinnsFormer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Linear(2, WIDTH)
        self.encoder, self.decoder = Block(), Block()
        self.head = mlp(WIDTH, HIDDEN, HIDDEN, 1)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.constant_(layer.bias, 0.01)
        count = sum(p.numel() for p in self.parameters())
        assert count == wave.PARAMETERS, count

    def forward(self, x, t):
        tokens = self.embedding(torch.cat([x, t], -1))
        return self.head(self.decoder(tokens, self.encoder(tokens)))


class Nested:
    """As the document's scripts."""

    @staticmethod
    def gradient(u, x):
        return torch.autograd.grad(u, x, torch.ones_like(u),
                                   create_graph=True)[0]

    def seconds(self, model, x, t):
        x, t = x.requires_grad_(), t.requires_grad_()
        u = model(x, t)
        u_x, u_t = self.gradient(u, x), self.gradient(u, t)
        return self.gradient(u_x, x), self.gradient(u_t, t)

    def value_and_rate(self, model, x, t):
        t = t.requires_grad_()
        u = model(x, t)
        return u, self.gradient(u, t)


class NestedFunctions:
    """The same by functions of functions."""

    @staticmethod
    def gradient(u):
        return func.grad(lambda x: u(x).sum())

    def seconds(self, model, x, t):
        return (self.gradient(self.gradient(lambda x: model(x, t)))(x),
                self.gradient(self.gradient(lambda t: model(x, t)))(t))

    def value_and_rate(self, model, x, t):
        return model(x, t), self.gradient(lambda t: model(x, t))(t)


class Forward:
    @staticmethod
    def derivative(u, x):
        """u(x) and its derivative as all tokens of a window move by one."""
        return func.jvp(u, (x,), (torch.ones_like(x),))

    def second(self, u, x):
        return self.derivative(lambda x: self.derivative(u, x)[1], x)[1]

    def seconds(self, model, x, t):
        return (self.second(lambda x: model(x, t), x),
                self.second(lambda t: model(x, t), t))

    def value_and_rate(self, model, x, t):
        return self.derivative(lambda t: model(x, t), t)


def ways(args):
    if args.form == "forward":
        return Forward()
    return NestedFunctions() if args.mode == "compiled" else Nested()


def make_loss(way, model, per_axis, device):
    arrays = wave.points(per_axis)
    at = {name: [torch.from_numpy(a).to(device) for a in both]
          for name, both in arrays.items()}
    initial = torch.from_numpy(
        wave.initial_value(arrays["start"][0])).to(device)

    def loss():
        answers = (*way.seconds(model, *at["inside"]),
                   *way.value_and_rate(model, *at["start"]))
        sides = [model(*at[name])[..., 0] for name in ("left", "right")]
        return wave.loss(*(u[..., 0] for u in answers), initial, sides)

    return loss


def make_closure(args, model, compile_mode):
    loss = make_loss(ways(args), model, args.per_axis, args.device)
    return closure_of(args, model, loss, compile_mode)


def main():
    args = wave.arguments(__doc__, MODES)
    wait = set_up(args)
    model = PinnsFormer().to(args.device)
    run(args, lambda mode: make_closure(args, model, mode), wait,
        wave.plan(args), args.cases, per_axis=args.per_axis,
        parameters=wave.PARAMETERS)


if __name__ == "__main__":
    main()
