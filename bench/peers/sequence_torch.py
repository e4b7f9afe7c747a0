"""Greedy generation of one sequence by PyTorch's own modules, beside ours.

  decoder_only     causal encoder layers, 96 wide, 4 heads, 2 layers, over 256
                   tokens, up to a window of 96
  encoder_decoder  nn.TransformerEncoder and nn.TransformerDecoder, 64 wide, 4
                   heads, 2 layers each; a source of 20 letters, encoded once,
                   and a target of 21 tokens

The modules keep nothing of earlier tokens: each token is one pass over all
before it, in evaluation mode and without gradients. Layers are called one by
one: the library's stacks look at their mask first, which costs time.

  eager     as it is written
  graph     not possible: shapes change from token to token
  compiled  torch.compile of one pass, over all lengths

Example:
  sequence_torch.py --model decoder_only

The last line of stdout is JSON: {"peer": ..., "ms": median, ...}.
"""

import torch
from torch import nn

import common
from common_torch import MODES, compiled, run, set_up


def layers(kind, width):
    # Norms behind, as ours.
    return kind(width, 4, 4 * width, dropout=0, batch_first=True)


class DecoderOnly(nn.Module):
    tokens, window, source = 256, 96, 0

    def __init__(self, width=96):
        super().__init__()
        self.embedding = nn.Embedding(self.tokens, width)
        self.places = nn.Parameter(torch.randn(self.window, width))
        self.stack = nn.TransformerEncoder(
            layers(nn.TransformerEncoderLayer, width), 2)
        self.head = nn.Linear(width, self.tokens)
        self.register_buffer("mask", nn.Transformer
                             .generate_square_subsequent_mask(self.window))

    def encoded(self, source):
        return None

    def forward(self, memory, target):
        length = target.shape[1]
        x = self.embedding(target) + self.places[:length]
        for layer in self.stack.layers:
            x = layer(x, src_mask=self.mask[:length, :length])
        return self.head(x[:, -1])


class EncoderDecoder(nn.Module):
    tokens, window, source = 29, 21, 20

    def __init__(self, width=64):
        super().__init__()
        self.of_source = nn.Embedding(self.tokens, width)
        self.of_target = nn.Embedding(self.tokens, width)
        self.places = nn.Parameter(torch.randn(self.window, width))
        self.encoder = nn.TransformerEncoder(
            layers(nn.TransformerEncoderLayer, width), 2)
        self.decoder = nn.TransformerDecoder(
            layers(nn.TransformerDecoderLayer, width), 2)
        self.head = nn.Linear(width, self.tokens)
        self.register_buffer("mask", nn.Transformer
                             .generate_square_subsequent_mask(self.window))

    def encoded(self, source):
        length = source.shape[1]
        return self.encoder(self.of_source(source) + self.places[:length])

    def forward(self, memory, target):
        length = target.shape[1]
        x = self.of_target(target) + self.places[:length]
        for layer in self.decoder.layers:
            x = layer(x, memory, tgt_mask=self.mask[:length, :length])
        return self.head(x[:, -1])


def make_generation(args, model, compile_mode):
    source = torch.full((1, model.source), 5, device=args.device)
    step = model.forward
    if compile_mode:
        step = compiled(step, compile_mode)

    def generate():
        with torch.no_grad():
            memory = model.encoded(source) if model.source else None
            target = torch.ones((1, 1), dtype=torch.int64, device=args.device)
            for _ in range(model.window):
                token = step(memory, target).argmax(1, keepdim=True)
                target = torch.cat([target, token], 1)[:, -model.window:]

    return generate


def main():
    parser = common.make_parser(
        __doc__, [mode for mode in MODES if mode != "graph"],
        {"published": "modules of the library"})
    parser.add_argument("--model", choices=["decoder_only", "encoder_decoder"],
                        default="decoder_only")
    args = common.parse(parser)
    wait = set_up(args)
    kinds = {"decoder_only": DecoderOnly, "encoder_decoder": EncoderDecoder}
    model = kinds[args.model]().to(args.device).eval()
    run(args, lambda mode: make_generation(args, model, mode), wait, (3, 21),
        model.window)


if __name__ == "__main__":
    main()
