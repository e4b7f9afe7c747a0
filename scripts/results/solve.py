"""PDEs from their text: every row, and the tables of docs/solve.md."""
import json

from common import ROOT, fill, load

ORDER = 2


def solve_rows():
    yield "| row | mode | relative L2, median | paper (mean) | seeds, failed | residual | training of one seed | a classical method for the same error | on | command |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for _, row in load("solve"):
        r = row["result"]
        document = f"{row['document']:.4f}" if row["document"] else "-"
        classical = r.get("classical")
        line = (f"{1e3 * classical['seconds']:.0f} ms "
                f"({classical['relative_l2']:.0e})" if classical else "-")
        yield (f"| {row['row']} | {row['mode']} | {row['value']:.2e} "
               f"| {document} | {len(row['seeds'])}, {row['failed']} "
               f"| {r['residual']:.1e} | {r['training_seconds']:.0f} s "
               f"| {line} | {r['machine']}, {row['device']}, {row['precision']} "
               f"| `{row['command']}` |")


def solve_row(name):
    return json.loads((ROOT / f"results/solve/{name}.json").read_text())


def error(row):
    """Of a row of task solve: the median and all seeds."""
    return (f"{row['value']:.1e} "
            f"| {min(row['seeds']):.1e} to {max(row['seeds']):.1e}")


def failures(row):
    return f"{row['failed']} of {len(row['seeds'])}"


def spformer_paper_rows():
    yield "| problem | network | relative L2, median | all seeds | failed | paper (mean) |"
    yield "|---|---|---|---|---|---|"
    for problem in ["reaction", "convection", "wave"]:
        for network in ["pinn", "kan", "pinnsformer", "pinn-mamba", "spformer",
                        "spformer-rope", "spformer-alibi"]:
            row = solve_row(f"{problem}-{network}")
            yield (f"| {problem} | {network} | {error(row)} | {failures(row)} "
                   f"| {row['document']:.4f} |")


def other_recipes():
    yield "| row | relative L2, median | all seeds | failed | with the recipe above | failed | paper (mean) |"
    yield "|---|---|---|---|---|---|---|"
    for name in ["wave-pinnsformer", "wave-pinn"]:
        yield other_recipe(name, "ntk")
    for name in ["reaction-pinn-mamba", "convection-pinn-mamba"]:
        yield other_recipe(name, "published")


def other_recipe(name, other):
    row, usual = solve_row(f"{name}-{other}"), solve_row(name)
    return (f"| `{name}-{other}` | {error(row)} | {failures(row)} "
            f"| {usual['value']:.1e} | {failures(usual)} "
            f"| {row['document']:.4f} |")


def best_rows():
    yield "| problem | relative L2, median | all seeds | the paper's best | a training |"
    yield "|---|---|---|---|---|"
    for problem in ["wave", "reaction", "convection"]:
        row = solve_row(f"{problem}-best")
        yield (f"| {problem} | {error(row)} | {row['document']:.1e} "
               f"| {row['result']['training_seconds']:.0f} s |")


def section():
    return [
        "## Solve",
        "",
        "Rows named after a problem alone are of the default network and settings (`convection`: with features",
        "and points of its own), on one ARM core each, two at a time. Those of the S-Pformer paper's networks shared the",
        "GPU, four to ten at a time, or a CPU with other work: their times are longer than alone.",
        "Where no exact solution is known the error is against a numerical one from the same text. The",
        "classical method is collocation, on the same machine; beside its time stands the error it reached.",
        "[solve.md](solve.md) explains both. Rows that are not here are not measured yet.",
        "",
        *solve_rows(),
        "",
    ]


def fill_pages():
    fill("solve.md", "solve", spformer_paper_rows())
    fill("solve.md", "solve, other recipes", other_recipes())
    fill("solve.md", "solve, best", best_rows())
