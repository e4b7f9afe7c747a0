"""The heat transformer of document 000 in PyTorch, for timing beside ours.

Written from the document's description: every frame embedded through
26*26*256 -> 512 (--form published) or the same function collapsed to
676 -> 512 (--form collapsed), attention over all T x T pairs under an
additive mask, the loss in plain operations, Adam.

  eager     as it is written
  graph     the whole step, Adam included, as one CUDA graph
  compiled  torch.compile of forward and loss, in the faster of the modes
            reduce-overhead and max-autotune; Adam fused

A rollout is the document's own protocol: passes over the whole sequence, each
replacing the next five frames of the input by the output.

Examples:
  heat_torch.py step --form collapsed --mask causal
  heat_torch.py step --device cuda --precision tf32 --mode compiled
  heat_torch.py rollout --mask causal --device cuda --batch 48

The last line of stdout is JSON: {"peer": ..., "ms": median, ...}.
"""

import math

import torch
from torch import nn

import heat
from common_torch import MODES, captured, compiled, run, set_up
from heat import COLS, FRAMES, HEADS, HIDDEN, LAYERS, ROWS, WIDTH


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
        for name, array in [("mask", heat.additive_mask(kind)),
                            ("time", heat.encoding(FRAMES, WIDTH)),
                            ("space", heat.space_encoding())]:
            self.register_buffer(name, torch.from_numpy(array))

    def forward(self, frames, alpha):
        if self.form == "published":
            x = (frames[..., None] + self.space).flatten(2)
        else:
            x = frames.flatten(2)
        x = self.embed(x) + self.time + self.alpha(alpha[:, None])[:, None]
        for layer in self.layers:
            x = layer(x, self.mask)
        return self.output(self.norm2(self.norm1(x))).view_as(frames)


def make_step(args, model, frames, alpha, dt, compile_mode):
    def forward(frames, alpha, dt):
        return heat.loss(model(frames, alpha), frames, alpha, dt)

    options = {"eager": {}, "graph": {"capturable": True, "fused": True},
               "compiled": {"fused": True}}[args.mode]
    adam = torch.optim.Adam(model.parameters(), lr=1e-4, **options)
    if compile_mode:
        forward = compiled(forward, compile_mode)

    def step():
        adam.zero_grad(set_to_none=True)
        forward(frames, alpha, dt).backward()
        adam.step()

    return captured(step)[0].replay if args.mode == "graph" else step


def make_rollout(args, model, frames, alpha, compile_mode):
    x = frames.clone()

    def forward():
        return model(x, alpha)

    if args.mode == "graph":
        with torch.no_grad():
            graph, output = captured(forward)

        def forward():
            graph.replay()
            return output
    elif compile_mode:
        fast = compiled(model, compile_mode)

        def forward():
            return fast(x, alpha)

    @torch.no_grad()
    def rollout():
        x.copy_(frames)
        for t in range(heat.VISIBLE, FRAMES, heat.STRIDE):
            x[:, t:t + heat.STRIDE] = forward()[:, t:t + heat.STRIDE]

    return rollout


def main():
    args = heat.arguments(__doc__, MODES)
    wait = set_up(args)
    model = HeatTransformer(args.form, args.mask).to(args.device)
    plates = [torch.from_numpy(array).to(args.device)
              for array in heat.plates(args.batch)]

    def make(compile_mode):
        if args.what == "step":
            return make_step(args, model, *plates, compile_mode)
        return make_rollout(args, model, *plates[:2], compile_mode)

    run(args, make, wait, heat.plan(args), args.batch,
        ready=3 if args.what == "step" else 1, mask=args.mask)


if __name__ == "__main__":
    main()
