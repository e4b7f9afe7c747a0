"""The heat transformer of document 000 in PyTorch, for timing beside ours.

Written from the document's description: every frame embedded through
26*26*256 -> 512 (form "published") or the same function collapsed to
676 -> 512 (form "collapsed"), attention over all T x T pairs under an
additive mask, the loss in plain operations, Adam.

    heat_torch.py step    published|collapsed block|causal BATCH DEVICE
    heat_torch.py rollout published|collapsed causal       BATCH DEVICE

prints {"ms": median, ...} as JSON.
"""

import json
import math
import platform
import sys
import time

import torch
from torch import nn

ROWS = COLS = 26
FRAMES, VISIBLE = 401, 5
WIDTH, LAYERS, HEADS, HIDDEN = 512, 12, 16, 256


def encoding(n, dims):
    m = dims // 2
    frequency = torch.logspace(0, -4, m)
    angle = torch.arange(n)[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], 1) / math.sqrt(m)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k = nn.Linear(WIDTH, WIDTH, bias=False)
        self.v = nn.Linear(WIDTH, WIDTH, bias=False)
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, mask):
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, HEADS, -1).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS) + mask
        y = torch.softmax(scores, -1) @ v
        return self.o(y.transpose(1, 2).reshape(b, t, WIDTH))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x, mask):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.down(torch.relu(self.up(self.norm2(x))))


class HeatTransformer(nn.Module):
    def __init__(self, form, kind):
        super().__init__()
        self.form = form
        features = WIDTH // 2 if form == "published" else 1
        self.embed = nn.Linear(ROWS * COLS * features, WIDTH)
        self.alpha = nn.Linear(1, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.output = nn.Linear(WIDTH, ROWS * COLS)
        mask = torch.full((FRAMES, FRAMES), -math.inf)
        mask = mask.triu(0) if kind == "causal" else mask
        mask[:, :VISIBLE] = 0
        self.register_buffer("mask", mask)
        self.register_buffer("time", encoding(FRAMES, WIDTH))
        y, x = encoding(ROWS, WIDTH // 2), encoding(COLS, WIDTH // 2)
        self.register_buffer("space", y[:, None] + x[None])

    def forward(self, frames, alpha):
        if self.form == "published":
            x = (frames[..., None] + self.space).flatten(2)
        else:
            x = frames.flatten(2)
        x = self.embed(x) + self.time + self.alpha(alpha[:, None])[:, None]
        for layer in self.layers:
            x = layer(x, self.mask)
        return self.output(self.norm2(self.norm1(x))).view_as(frames)


def loss(p, truth, alpha, dt, dx):
    square = lambda x: x.square().mean()
    e = p - truth
    inner = p[:, :-1, 1:-1, 1:-1]
    lap = (p[:, :-1, 1:-1, 2:] + p[:, :-1, 1:-1, :-2] + p[:, :-1, 2:, 1:-1]
           + p[:, :-1, :-2, 1:-1] - 4 * inner) / dx**2
    rate = (p[:, 1:, 1:-1, 1:-1] - inner) / dt.view(-1, 1, 1, 1)
    physics = square(rate - alpha.view(-1, 1, 1, 1) * lap)
    edges = (square(e[..., 0]) + square(e[..., -1])
             + square(e[:, :, 0]) + square(e[:, :, -1]))
    return (square(e) + 0.001 * physics + 0.1 * edges
            + 0.1 * square(e[:, :VISIBLE]))


def measure(work, warm_up, repeats, device):
    times = []
    for n in range(warm_up + repeats):
        start = time.perf_counter()
        work()
        if device != "cpu":
            torch.cuda.synchronize()
        if n >= warm_up:
            times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)


def main():
    what, form, kind, batch, device = sys.argv[1:]
    torch.manual_seed(0)
    # The same choice of library as ours: see core/torch_compat.h.
    if platform.machine() == "aarch64" and torch.__version__ < "2":
        torch._C._set_mkldnn_enabled(False)
    model = HeatTransformer(form, kind).to(device)
    frames = torch.rand(int(batch), FRAMES, ROWS, COLS, device=device)
    alpha = 0.01 + 0.09 * torch.rand(int(batch), device=device)
    dx = 1 / (COLS - 1)
    dt = dx**2 / (10 * alpha)
    if what == "step":
        adam = torch.optim.Adam(model.parameters(), lr=1e-4)

        def work():
            adam.zero_grad(set_to_none=True)
            loss(model(frames, alpha), frames, alpha, dt, dx).backward()
            adam.step()

        times = measure(work, 1, 5, device)
    else:
        # The document's own protocol: passes over the whole sequence, each
        # replacing the next five frames of the input by the output.
        @torch.no_grad()
        def work():
            x = frames.clone()
            for t in range(VISIBLE, FRAMES, 5):
                x[:, t:t + 5] = model(x, alpha)[:, t:t + 5]

        times = measure(work, 0, 1, device)
    print(json.dumps({"ms": times[len(times) // 2], "repeats": len(times),
                      "torch": torch.__version__,
                      "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
