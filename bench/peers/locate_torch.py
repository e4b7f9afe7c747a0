"""The transformer of document 002 in PyTorch, for timing beside ours.

Written from the document's description: a summary token and one token for
each of eight sensors (an embedding and a linear layer of the hit time), padding
for sensors that were not hit, the library's own encoder layers (post-norm, 32
wide, 4 heads, dropout 0.1), mean square of the coordinates, Adam. Times and
hits are drawn at random: the work does not depend on them.

  eager     as it is written
  graph     the whole step, Adam included, as one CUDA graph
  compiled  torch.compile of forward and loss; Adam fused

Example:
  locate_torch.py --layers 5

The last line of stdout is JSON: {"peer": ..., "ms": median, ...}.
"""

import torch
from torch import nn

import common
from common_torch import MODES, run, set_up, training_step

SENSORS, BATCH, WIDTH, EVENTS = 8, 32, 32, 4096


class EventTransformer(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.embedding = nn.Embedding(SENSORS + 1, WIDTH)
        self.time = nn.Linear(1, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.output = nn.Linear(WIDTH, 3)

    def forward(self, ids, times):
        x = self.embedding(ids) + self.time(times[..., None])
        summary = self.embedding.weight[:1].expand(len(ids), 1, -1)
        padding = torch.cat([torch.zeros_like(ids[:, :1], dtype=torch.bool),
                             ids == 0], 1)
        x = self.encoder(torch.cat([summary, x], 1),
                         src_key_padding_mask=padding)
        return self.output(x[:, 0])


def events():
    """Numbers of sensors (0: not hit), times in ns and places in m."""
    hit = torch.rand(EVENTS, SENSORS) < 0.6
    hit[:, :4] = True
    ids = torch.where(hit, torch.arange(1, SENSORS + 1), torch.tensor(0))
    return ids, 80 * torch.rand(EVENTS, SENSORS) * hit, 10 * torch.rand(
        EVENTS, 3) - 5


def main():
    parser = common.make_parser(
        __doc__, MODES, {"published": "as the document writes it"})
    parser.add_argument("--layers", type=int, default=2)
    args = common.parse(parser)
    wait = set_up(args)
    model = EventTransformer(args.layers).to(args.device)
    data = [x.to(args.device) for x in events()]

    def loss_at(rows):
        ids, times, truth = (x[rows] for x in data)
        return nn.functional.mse_loss(model(ids, times), truth)

    run(args, lambda mode: training_step(args, model, loss_at, BATCH, EVENTS,
                                         mode), wait, (50, 501), BATCH)


if __name__ == "__main__":
    main()
