"""Two densities of the Lisbon lecture in PyTorch, for timing beside ours.

Written from the formulas, for two variables and batches of 500:

  maf     five masked networks of two hidden layers of 64 (SiLU), each of which
          shifts and scales every variable by those before it; the order turns
          from one to the next, after a learned shift and scale of each variable
  former  the library's own causal encoder layers (64 wide, 4 heads, 2 layers)
          over tokens of variables, and a mixture of 8 normal numbers for each

The loss is the mean negative log-likelihood, the optimiser Adam. Rows are drawn
at random: the work does not depend on them.

  eager     as it is written
  graph     the whole step, Adam included, as one CUDA graph
  compiled  torch.compile of the loss; Adam fused

Example:
  density_torch.py --model maf

The last line of stdout is JSON: {"peer": ..., "ms": median, ...}.
"""

import math

import torch
from torch import nn

import common
from common_torch import MODES, run, set_up, training_step

VARIABLES, BATCH, ROWS, WIDTH = 2, 500, 50000, 64
LOG_2PI = math.log(2 * math.pi)


class Masked(nn.Linear):
    def __init__(self, mask):
        super().__init__(mask.shape[1], mask.shape[0])
        self.register_buffer("mask", mask.float())

    def forward(self, x):
        return nn.functional.linear(x, self.weight * self.mask, self.bias)


class Made(nn.Module):
    """Two numbers of each variable from the variables before it."""

    def __init__(self):
        super().__init__()
        inputs = torch.arange(VARIABLES)
        hidden = torch.arange(WIDTH) % max(VARIABLES - 1, 1)
        outputs = inputs.repeat(2)
        self.layers = nn.Sequential(
            Masked(hidden[:, None] >= inputs), nn.SiLU(),
            Masked(hidden[:, None] >= hidden), nn.SiLU(),
            Masked(outputs[:, None] > hidden))

    def forward(self, x):
        return self.layers(x).chunk(2, -1)


class Maf(nn.Module):
    def __init__(self, flows=5):
        super().__init__()
        self.nets = nn.ModuleList(Made() for _ in range(flows))
        self.shifts = nn.Parameter(torch.zeros(flows, VARIABLES))
        self.log_scales = nn.Parameter(torch.zeros(flows, VARIABLES))

    def forward(self, x):
        volume = 0
        for n, net in enumerate(self.nets):
            x = (x - self.shifts[n]) * self.log_scales[n].exp()
            volume = volume + self.log_scales[n].sum()
            shift, log_scale = net(x)
            x = (x - shift) * torch.exp(-log_scale)
            volume = volume - log_scale.sum(-1)
            x = x.flip(-1)
        return volume - 0.5 * (x.square().sum(-1) + VARIABLES * LOG_2PI)


class Former(nn.Module):
    def __init__(self, components=8):
        super().__init__()
        self.value_in = nn.Linear(1, WIDTH)
        self.value_out = nn.Linear(WIDTH, WIDTH)
        self.places = nn.Parameter(torch.zeros(VARIABLES, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0,
                                           batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(WIDTH, 3 * components)
        self.register_buffer("mask", nn.Transformer
                             .generate_square_subsequent_mask(VARIABLES))

    def forward(self, x):
        before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        tokens = self.value_in(before[..., None])
        tokens = self.value_out(nn.functional.gelu(tokens))
        tokens = tokens + self.places
        for layer in self.encoder.layers:  # the stack asks the device first
            tokens = layer(tokens, src_mask=self.mask)
        weight, mean, log_scale = self.head(tokens).chunk(3, -1)
        z = (x[..., None] - mean) * torch.exp(-log_scale)
        each = (torch.log_softmax(weight, -1) - log_scale -
                0.5 * (z.square() + LOG_2PI))
        return torch.logsumexp(each, -1).sum(-1)


def main():
    parser = common.make_parser(
        __doc__, MODES, {"published": "as the formulas say"})
    parser.add_argument("--model", choices=["maf", "former"], default="maf")
    args = common.parse(parser)
    wait = set_up(args)
    model = {"maf": Maf, "former": Former}[args.model]().to(args.device)
    rows = torch.randn(ROWS, VARIABLES).to(args.device)
    run(args, lambda mode: training_step(
        args, model, lambda at: -model(rows[at]).mean(), BATCH, ROWS, mode),
        wait, (20, 201), BATCH)


if __name__ == "__main__":
    main()
