"""A small network on Burgers' equation in PyTorch, for timing beside ours: one
closure, the loss and the gradient of all parameters, in float64.

Three hidden layers of width 20 with tanh, the initial values as a hard
constraint u = -sin(pi x) + t N(x, t), the ends as terms of the loss.

  published  u_x = grad(u, x, ones), u_xx = grad(u_x, x, ones), u_t as well,
             each by torch.autograd.grad with create_graph
  forward    each by torch.func.jvp, u_xx by jvp of jvp

  eager      as it is written
  graph      the whole closure as one CUDA graph
  compiled   torch.compile of the loss; `published` cannot be compiled

Examples:
  burgers_torch.py --per-axis 51
  burgers_torch.py --form forward

The last line of stdout is JSON: {"peer": ..., "ms": median, ...}.
"""

import math

import torch
from torch import nn

try:
    from torch import func
except ImportError:  # before PyTorch 2
    import functorch as func

import common
from common_torch import MODES, closure_of, run, set_up

WIDTH, LAYERS = 20, 3
NU = 0.01 / math.pi
CONDITION = 100  # the weight of boundary conditions


def network():
    layers, inputs = [], 2
    for _ in range(LAYERS):
        layers += [nn.Linear(inputs, WIDTH), nn.Tanh()]
        inputs = WIDTH
    return nn.Sequential(*layers, nn.Linear(WIDTH, 1)).double()


def field(model, x, t):
    return -torch.sin(math.pi * x) + t * model(torch.cat([x, t], -1))


def nested(model, x, t):
    """u, u_x, u_t, u_xx as gradients of gradients."""
    def gradient(u, by):
        return torch.autograd.grad(u, by, torch.ones_like(u),
                                   create_graph=True)[0]
    x, t = x.requires_grad_(), t.requires_grad_()
    u = field(model, x, t)
    u_x, u_t = gradient(u, x), gradient(u, t)
    return u, u_x, u_t, gradient(u_x, x)


def forward(model, x, t):
    one = torch.ones_like(x)

    def along_x(x):
        return func.jvp(lambda x: field(model, x, t), (x,), (one,))

    (u, u_x), (_, u_xx) = func.jvp(along_x, (x,), (one,))
    u_t = func.jvp(lambda t: field(model, x, t), (t,), (one,))[1]
    return u, u_x, u_t, u_xx


def make_closure(args, model, compile_mode):
    options = {"dtype": torch.float64, "device": args.device}
    engine = torch.quasirandom.SobolEngine(2, scramble=True, seed=0)
    inside = engine.draw(args.cases).to(**options)
    x, t = 2 * inside[:, :1] - 1, inside[:, 1:].clone()
    time = torch.linspace(0, 1, args.per_axis, **options)[:, None]
    ends = [(torch.full_like(time, end), time) for end in (-1.0, 1.0)]
    derivatives = nested if args.form == "published" else forward

    def loss():
        u, u_x, u_t, u_xx = derivatives(model, x, t)
        total = (u_t + u * u_x - NU * u_xx).square().mean()
        for end in ends:
            total = total + CONDITION * field(model, *end).square().mean()
        return total

    return closure_of(args, model, loss, compile_mode)


def main():
    parser = common.make_parser(
        __doc__, MODES,
        {"published": "derivatives by gradients of gradients, as is usual",
         "forward": "by jvp, and jvp of jvp"}, ("fp64",))
    parser.add_argument("--per-axis", type=int, default=51,
                        help="points are the square of that")
    args = common.parse(parser)
    args.cases = args.per_axis**2
    wait = set_up(args)
    model = network().to(args.device)
    run(args, lambda mode: make_closure(args, model, mode), wait,
        (5, 30) if args.on_cpu else (10, 100), args.cases,
        per_axis=args.per_axis,
        parameters=sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main()
