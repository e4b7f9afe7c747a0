"""PyTorch's own L-BFGS on the reaction equation of the S-Pformer paper, to see where it
stays: PINNsFormer, a grid of windows of 5 tokens, steps of 20 iterations with
the strong Wolfe search, derivatives as the paper's scripts take them.

A network may first learn an answer that does not depend on x, with a loss near
0.2. From there it may fall by less at a step than float32 shows of it.

Examples:
  plateau_torch.py --per-axis 17 --steps 30
  plateau_torch.py --device cuda --precision fp64

A line for each step; the last line of stdout is JSON.
"""

import argparse
import os
import json
import math

import numpy as np
import torch

import wave_problem
from common_torch import set_up
from wave_torch import Nested, PinnsFormer


def make_loss(model, per_axis, options):
    def windows(x, t):
        return [torch.from_numpy(a).to(**options)
                for a in wave_problem.windows(x, t)]

    x = np.linspace(0, 2 * math.pi, per_axis)
    t = np.linspace(0, 1, per_axis)
    inside = windows(*(a.ravel() for a in np.meshgrid(x, t, indexing="ij")))
    start = windows(x, np.zeros(per_axis))
    left, right = windows(0 * t, t), windows(0 * t + 2 * math.pi, t)
    initial = torch.exp(-(start[0] - math.pi)**2 / (2 * (math.pi / 4)**2))[:, 0]

    def loss():
        u, u_t = Nested().value_and_rate(model, *inside)
        return ((u_t - 5 * u * (1 - u)).square().mean()
                + (model(*start)[:, 0] - initial).square().mean()
                + (model(*left) - model(*right)).square().mean())

    return loss


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-axis", type=int, default=51)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=["fp32", "fp64"], default="fp32")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    args.on_cpu = args.device == "cpu"
    set_up(args)

    options = {"device": args.device, "dtype": torch.float32
               if args.precision == "fp32" else torch.float64}
    torch.manual_seed(args.seed)
    model = PinnsFormer().to(**options)
    loss = make_loss(model, args.per_axis, options)
    optimizer = torch.optim.LBFGS(model.parameters(),
                                  line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    losses = []
    for step in range(args.steps):
        losses.append(float(optimizer.step(closure)))  # where it began
        print(f"step {step}  loss {losses[-1]:.9f}", flush=True)
    print(json.dumps({"peer": f"pytorch {torch.__version__.split('+')[0]}",
                      **vars(args), "losses": losses}))


if __name__ == "__main__":
    main()
