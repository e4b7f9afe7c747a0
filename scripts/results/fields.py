"""Forecasts of any field: the procedural benchmarks."""
from common import PLACE, band, fill, head, is_field, is_question, load, place, seeds, spread

ORDER = 1.5


def step_errors(result):
    """Of the learned step; docs/report.md defines them."""
    learned = result.get("learned_step", {})
    if "cell_error" not in learned:
        return "-"
    return (f"{100 * learned['data_error']:.2g} % / "
            f"{100 * learned['cell_error']:.3g} %")


def rows():
    yield from head("row", "metric", "ours", "published", "seeds", "spread",
                    "band", "nRMSE", "nRMSE, one step", "better baseline, nRMSE",
                    "step error, data / cells", "leaks", "training", PLACE, "command")
    for _, row in load("forecast"):
        if not is_field(row) or is_question(row):
            continue
        r = row["result"]
        name, best = min(r["baselines"].items(), key=lambda item: item[1]["nrmse"])
        published = row["document"]
        yield (f"| {row['row']} | {row['metric']} | {row['value']:.2e} "
               f"| {f'{published:.2e}' if published else '-'} "
               f"| {seeds(row)} | {spread(row)} | {band(row)} "
               f"| {r['nrmse']:.2e} | {r['one_step']['nrmse']:.2e} "
               f"| {best['nrmse']:.2e} ({name}) "
               f"| {step_errors(r)} | {r['leak_audit']['leaks']} "
               f"| {row['seconds']:.0f} s | {place(row)} | `{row['command']}` |")


def section():
    return [
        "## Forecasts of other fields",
        "",
        *rows(),
        "",
        "The procedural benchmarks of [fields.md](fields.md), by the networks of [forecast.md](forecast.md#any-field);",
        "published numbers are of a Fourier neural operator or, for the ring, of convolutions.",
        "",
    ]


def fill_pages():
    fill("forecast.md", "forecast, other fields", rows())
