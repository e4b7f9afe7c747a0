"""Sequences of tokens."""
from common import PLACE, band, head, load, place, seeds, spread

ORDER = 3.7


def rows():
    yield from head("row", "metric", "median", "band", "seeds", "spread",
                    "cross-entropy (nats a token)", "parameters",
                    "training of one seed", PLACE, "command")
    for _, row in load("sequence"):
        r = row["result"]
        text = "bits_a_character" in r
        yield (f"| {row['row']} "
               f"| {'bits a character' if text else 'wrong sequences (%)'} "
               f"| {row['value']:.4g} | {band(row)} "
               f"| {seeds(row)} | {spread(row)} | {r['cross_entropy']:.2e} "
               f"| {r['parameters']} "
               f"| {row['seconds'] / len(row['seeds']):.0f} s "
               f"| {place(row)} | `{row['command']}` |")


def section():
    if not load("sequence"):
        return []
    return [
        "## Sequences",
        "",
        "1000 sequences of up to 20 letters that training has not, generated greedily; and a text.",
        "[sequence.md](sequence.md) explains the columns.",
        "",
        *rows(),
        "",
    ]
