"""PDEs from their text: every row, and the tables of docs/solve.md."""
import statistics

from common import PLACE, band, commit, fill, head, load, place, read, seeds
from history import day, sources

ORDER = 2


def solve_rows():
    yield from head("row", "mode", "relative L2, median", "mean",
                    "paper (mean)", "band", "seeds", "residual",
                    "training of one seed",
                    "a classical method for the same error", PLACE, "command")
    for _, row in load("solve"):
        r = row["result"]
        document = f"{row['document']:.4f}" if row["document"] else "-"
        yield (f"| {row['row']} | {row['mode']} | {row['value']:.2e} "
               f"| {mean(row):.2e} | {document} | {band(row)} | {seeds(row)} "
               f"| {r['residual']:.1e} | {training(row)} "
               f"| {by_classical(row)} | {place(row)} | `{row['command']}` |")


def solve_row(name):
    return read(f"solve/{name}")


def mean(row):
    return statistics.mean(row["seeds"])


def training(row):
    return f"{row['seconds'] / len(row['seeds']):.0f} s"


def relative_l1(row):
    """The mean, or of a file that lacks the other seeds' the median seed's."""
    each = [seed["metrics"]["relative L1"] for seed in row.get("per_seed", [])]
    return statistics.mean(each) if each else row["result"]["relative_l1"]


def of_which_seeds(rows):
    """What relative_l1 is of, for a heading."""
    whole = ["per_seed" in row for row in rows]
    if all(whole):
        return "mean"
    return "mean, or of a file without each seed's the median seed" if any(whole) else "median seed"


ERROR = "relative L2, median | mean | all seeds | failed"


def error(row):
    """The columns of ERROR."""
    return (f"{row['value']:.1e} | {mean(row):.1e} "
            f"| {min(row['seeds']):.1e} to {max(row['seeds']):.1e} "
            f"| {row['failed']} of {len(row['seeds'])}")


NETWORKS = ("pinn", "kan", "pinnsformer", "pinn-mamba", "spformer",
            "spformer-rope", "spformer-alibi")


def spformer_paper_rows():
    rows = {(problem, network): solve_row(f"{problem}-{network}")
            for problem in ("reaction", "convection", "wave")
            for network in NETWORKS}
    yield from head("problem", "network", ERROR, "paper (mean)", "band",
                    f"relative L1, {of_which_seeds(rows.values())}",
                    "training of one seed", "commit", "of")
    for (problem, network), row in rows.items():
        yield (f"| {problem} | {network} | {error(row)} "
               f"| {row['document']:.4f} | {band(row)} "
               f"| {relative_l1(row):.1e} | {training(row)} "
               f"| {commit(row)} | {day(sources(row))} |")


def other_recipes():
    yield from head("row", ERROR, "paper (mean)", "band",
                    "median with the recipe above", "failed")
    for name in ["wave-pinnsformer", "wave-pinn"]:
        yield other_recipe(name, "ntk")
    for name in ["reaction-pinn-mamba", "convection-pinn-mamba"]:
        yield other_recipe(name, "published")


def other_recipe(name, other):
    row, usual = solve_row(f"{name}-{other}"), solve_row(name)
    return (f"| `{name}-{other}` | {error(row)} | {row['document']:.4f} "
            f"| {band(row)} | {usual['value']:.1e} "
            f"| {usual['failed']} of {len(usual['seeds'])} |")


def best_rows():
    yield from head("problem", ERROR, "the paper's best (mean)", "band",
                    "training of one seed", PLACE)
    for problem in ["wave", "reaction", "convection"]:
        row = solve_row(f"{problem}-best")
        known = (", features chosen knowing the answer"
                 if problem == "convection" else "")
        yield (f"| {problem}{known} | {error(row)} | {row['document']:.4f} "
               f"| {band(row)} | {training(row)} | {place(row)} |")


def precise_rows():
    yield from head("problem", ERROR, "band", "residual",
                    "training of one seed",
                    "a classical method for the same error", PLACE)
    for path, row in load("solve"):
        if not path.stem.endswith("-precise"):
            continue
        yield (f"| {path.stem.removesuffix('-precise')} | {error(row)} | {band(row)} "
               f"| {row['result']['residual']:.1e} | {training(row)} "
               f"| {by_classical(row)} | {place(row)} |")


def by_classical(row):
    """The time that it takes for the error of a row, and what it reached."""
    classical = row["result"].get("classical")
    return (f"{1e3 * classical['seconds']:.0f} ms "
            f"({classical['relative_l2']:.0e})" if classical else "-")


def section():
    return [
        "## Solve",
        "",
        "Rows named after a problem alone are of spformer-small and L-BFGS (`convection`: with features",
        "and points of its own), those named `-precise` of the recipe that is usual now. The features of",
        "`convection` and `convection-best` were chosen knowing the answer.",
        "Where no exact solution is known the error is against a numerical one from the same text. The",
        "classical method is collocation, on the same machine; beside its time stands the error it reached.",
        "[solve.md](solve.md) explains both.",
        "",
        *solve_rows(),
        "",
    ]


def fill_pages():
    fill("solve.md", "solve", spformer_paper_rows())
    fill("solve.md", "solve, other recipes", other_recipes())
    fill("solve.md", "solve, best", best_rows())
    fill("solve.md", "solve, precise", precise_rows())
