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

import burgers_problem as burgers
from common_torch import MODES, closure_of, run, set_up


def network():
    layers = []
    for inputs, outputs in zip(burgers.WIDTHS, burgers.WIDTHS[1:]):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return nn.Sequential(*layers[:-1]).double()


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
    at = {name: [torch.from_numpy(a).to(args.device) for a in both]
          for name, both in burgers.points(args.per_axis).items()}
    derivatives = nested if args.form == "published" else forward

    def loss():
        ends = [field(model, *at[name]) for name in ("left", "right")]
        return burgers.loss(*derivatives(model, *at["inside"]), ends)

    return closure_of(args, model, loss, compile_mode)


def main():
    args = burgers.arguments(__doc__, MODES)
    wait = set_up(args)
    model = network().to(args.device)
    assert sum(p.numel() for p in model.parameters()) == burgers.PARAMETERS
    run(args, lambda mode: make_closure(args, model, mode), wait,
        burgers.plan(args), args.cases, per_axis=args.per_axis,
        parameters=burgers.PARAMETERS)


if __name__ == "__main__":
    main()
