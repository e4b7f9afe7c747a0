"""Densities from samples."""
from common import PLACE, band, head, load, place, seeds, spread

ORDER = 3.5


def common_cells(row):
    r = row["result"]
    return (f"{row['value']:.4f} | {band(row)} | {seeds(row)} | {spread(row)} "
            f"| {r['variables']} | {r['parameters']} "
            f"| {row['seconds'] / len(row['seeds']):.0f} s "
            f"| {place(row)} | `{row['command']}` |")


def told_apart(r):
    return f"{100 * r['told_apart']:.1f} %" if "told_apart" in r else "-"


def targets():
    yield from head("row", "log likelihood", "minus the entropy", "told apart",
                    "below the truth, median", "band", "seeds", "spread",
                    "variables", "parameters", "training of one seed", PLACE,
                    "command")
    for _, row in load("density"):
        r = row["result"]
        if "entropy" in r:
            yield (f"| {row['row']} | {r['log_likelihood']:.4f} "
                   f"| {-r['entropy']:.4f} | {told_apart(r)} "
                   f"| {common_cells(row)}")


def posteriors():
    found = [row for _, row in load("density") if "median_error" in row["result"]]
    if not found:
        return
    yield from ["", "Posteriors from a simulator's pairs; regions are of one seed.", ""]
    yield from head("row", "regions of 50, 90, 95 % cover",
                    "median error of mode, classical", "told apart",
                    "below the truth, median", "band", "seeds", "spread",
                    "variables", "parameters", "training of one seed", PLACE,
                    "command")
    for row in found:
        r = row["result"]
        covered = ", ".join(f"{100 * r['coverage'][f'{n} %']:.1f}"
                            for n in (50, 90, 95))
        off = r["median_error"]
        yield (f"| {row['row']} | {covered} % "
               f"| {off['mode']:.4g}, {off['classical']:.4g} | {told_apart(r)} "
               f"| {common_cells(row)}")


def section():
    return [
        "## Density",
        "",
        "Known distributions from their samples, in nats a sample: 20 000 to train on, 20 000 to test.",
        "[density.md](density.md) explains the columns.",
        "",
        *targets(),
        *posteriors(),
        "",
    ]
