"""The physics-guided transformer on the wake of a cylinder in PyTorch, for
timing beside ours: one closure, the loss and the gradient of all parameters.

1500 sensors become tokens, whose attention has the logarithm of a Green's
function as a bias; 4096 points ask them, and a network of sines, modulated by
the answer, gives three fields.

  published  derivatives by torch.autograd.grad with create_graph
  forward    by torch.func.jvp of jvp

  eager      as it is written
  graph      the whole closure as one CUDA graph
  compiled   torch.compile of the loss, in the faster of the modes
             reduce-overhead and max-autotune

Examples:
  pgt_torch.py
  pgt_torch.py --device cuda --form forward --mode graph

The last line of stdout is JSON: {"peer": ..., "ms": median, ...}.
"""

import torch
from torch import nn
from torch.nn import functional as F

try:
    from torch import func
except ImportError:  # before PyTorch 2
    import functorch as func

import pgt_problem as pgt
from common_torch import MODES, closure_of, run, set_up
from pgt_problem import AXES, FIELDS, HEADS, WIDTH


def heads(x):
    return x.unflatten(-1, (HEADS, -1)).transpose(-3, -2)  # (H, T, D)


def attend(q, k, v, bias=None):
    """The library's own attention where it has one."""
    q, k, v = heads(q), heads(k), heads(v)
    if bias is not None and hasattr(F, "scaled_dot_product_attention"):
        y = F.scaled_dot_product_attention(q[None], k[None], v[None],
                                           attn_mask=bias)[0]
    else:
        scores = q @ k.transpose(-2, -1) / (WIDTH // HEADS)**0.5
        if bias is not None:
            scores = scores + bias
        y = torch.softmax(scores, -1) @ v
    return y.transpose(-3, -2).flatten(-2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.queries, self.keys, self.values, self.output = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up = nn.Linear(WIDTH, pgt.FEED_FORWARD)
        self.down = nn.Linear(pgt.FEED_FORWARD, WIDTH)

    def forward(self, tokens, bias):
        x = self.norm(tokens)
        y = attend(self.queries(x), self.keys(x), self.values(x), bias)
        return tokens + self.output(y) + self.down(F.gelu(self.up(x)))


class Pgt(nn.Module):
    def __init__(self, data):
        super().__init__()
        for name in ("places", "readings", "bias"):
            self.register_buffer("of_" + name, data[name])
        self.register_buffer("low", torch.from_numpy(pgt.LOW))
        self.register_buffer("span", torch.from_numpy(pgt.HIGH - pgt.LOW))
        self.reading, self.known = (nn.Linear(3, WIDTH, bias=False)
                                    for _ in range(2))
        self.place = nn.Linear(3, WIDTH)
        self.global_token = nn.Parameter(torch.zeros(1, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(pgt.LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.query_in, self.query_out = nn.Linear(3, WIDTH), nn.Linear(
            WIDTH, WIDTH)
        self.query, self.key, self.value, self.output = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        width = pgt.DECODER_WIDTH
        self.films = nn.ModuleList(nn.Linear(2 * WIDTH, 3 * width)
                                   for _ in range(pgt.DECODER_LAYERS))
        self.layers = nn.ModuleList(
            nn.Linear(width if n else 3, width)
            for n in range(pgt.DECODER_LAYERS))
        self.out = nn.Linear(width, 3)
        count = sum(p.numel() for p in self.parameters())
        assert count == pgt.PARAMETERS, count

    def unit(self, points):
        return (points - self.low) / self.span * 2 - 1

    def encode(self):
        read = F.pad(self.of_readings, (0, 1))  # the pressure is not read
        known = F.pad(torch.ones_like(self.of_readings), (0, 1))
        sensors = (self.place(self.unit(self.of_places)) + self.reading(read)
                   + self.known(known))
        tokens = torch.cat([self.global_token, sensors])
        for block in self.blocks:
            tokens = block(tokens, self.of_bias)
        tokens = self.norm(tokens)
        return tokens[:1], self.key(tokens[1:]), self.value(tokens[1:])

    def decode(self, points, encoded):
        whole, keys, values = encoded
        x = self.unit(points)
        phi = self.query_out(torch.tanh(self.query_in(x)))
        answer = self.output(attend(self.query(phi), keys, values))
        condition = torch.cat([answer, whole.expand(len(x), -1)], -1)
        for film, layer in zip(self.films, self.layers):
            gamma, beta, omega = film(condition).chunk(3, -1)
            x = torch.sin(pgt.FREQUENCY * omega * (gamma * layer(x) + beta))
        return self.out(x)


def nested(decode, points):
    def gradient(u):
        return torch.autograd.grad(u.sum(), points, create_graph=True)[0]

    points = points.detach().requires_grad_()
    fields = decode(points)
    d = {}
    for f, name in enumerate(FIELDS):
        d[name] = fields[:, f]
        first = gradient(fields[:, f])
        for a, axis in enumerate(AXES):
            d[f"{name}_{axis}"] = first[:, a]
            if name != "p" and axis != "t":
                d[f"{name}_{axis}{axis}"] = gradient(first[:, a])[:, a]
    return d


def forward_mode(decode, points):
    d = {}
    for a, axis in enumerate(AXES):
        step = torch.zeros_like(points)
        step[:, a] = 1

        def along(x, step=step):
            return func.jvp(decode, (x,), (step,))

        if axis == "t":
            fields, first = along(points)
        else:
            (fields, first), (_, second) = func.jvp(along, (points,), (step,))
        for f, name in enumerate(FIELDS):
            d[name] = fields[:, f]
            d[f"{name}_{axis}"] = first[:, f]
            if axis != "t":
                d[f"{name}_{axis}{axis}"] = second[:, f]
    return d


def make_closure(args, model, data, compile_mode):
    derivatives = nested if args.form == "published" else forward_mode

    def loss():
        encoded = model.encode()
        d = derivatives(lambda x: model.decode(x, encoded), data["points"])
        return pgt.loss(model.decode(data["places"], encoded),
                        data["readings"], d)

    return closure_of(args, model, loss, compile_mode)


def main():
    args = pgt.arguments(__doc__, MODES)
    wait = set_up(args)
    data = {name: torch.from_numpy(a).to(args.device)
            for name, a in pgt.arrays().items()}
    model = Pgt(data).to(args.device)
    run(args, lambda mode: make_closure(args, model, data, mode), wait,
        pgt.plan(args), args.cases, parameters=pgt.PARAMETERS)


if __name__ == "__main__":
    main()
