"""Fields from sensors: every row."""
from common import PLACE, band, head, load, place, seeds, spread

ORDER = 2.5


def reconstruct_rows():
    yield from head("row", "relative L2, median", "paper", "band", "seeds",
                    "spread", "residual, mean square", "sensors", "noise",
                    "parameters", "training of one seed", PLACE, "command")
    for _, row in load("reconstruct"):
        r = row["result"]
        claim = f"{row['document']:.4g}" if row["document"] else "-"
        yield (f"| {row['row']} | {row['value']:.2e} | {claim} | {band(row)} "
               f"| {seeds(row)} | {spread(row)} "
               f"| {r['residual_mean_square']:.1e} "
               f"| {r['sensors']['training']} | {r['sensors']['noise']:g} "
               f"| {r['parameters']} "
               f"| {row['seconds'] / len(row['seeds']):.0f} s "
               f"| {place(row)} | `{row['command']}` |")


def section():
    return [
        "## Reconstruct",
        "",
        "Fields from scattered readings, tested everywhere. The paper is the PGT paper, whose heat conduction has no",
        "diffusivity and no number of half waves: ours are in the configurations. [reconstruct.md](reconstruct.md)",
        "explains networks and test.",
        "",
        *reconstruct_rows(),
        "",
    ]
