"""Densities from samples."""
from common import PLACE, band, head, load, place, seeds, spread

ORDER = 3.5


def rows():
    yield from head("row", "log likelihood", "minus the entropy",
                    "below the truth, median", "band", "seeds", "spread",
                    "variables", "parameters", "training of one seed", PLACE,
                    "command")
    for _, row in load("density"):
        r = row["result"]
        yield (f"| {row['row']} | {r['log_likelihood']:.4f} "
               f"| {-r['entropy']:.4f} | {row['value']:.4f} | {band(row)} "
               f"| {seeds(row)} | {spread(row)} | {r['variables']} "
               f"| {r['parameters']} "
               f"| {row['seconds'] / len(row['seeds']):.0f} s "
               f"| {place(row)} | `{row['command']}` |")


def section():
    return [
        "## Density",
        "",
        "Known distributions from their samples, in nats a sample: 20 000 to train on, 20 000 to test.",
        "[density.md](density.md) explains the columns.",
        "",
        *rows(),
        "",
    ]
