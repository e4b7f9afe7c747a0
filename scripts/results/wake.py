"""The flow past a cylinder, and the table of docs/wake.md."""
from common import PLACE, fill, head, load, place

ORDER = 4


def wake_rows():
    yield from head("row", "number", "ours", "band", "", "seconds", PLACE)
    for _, row in [*load("wake"), *load("wake-cycles")]:
        for one in row["bands"]:
            low, high = one["band"]
            value = one["value"]
            ours = "-" if value is None else f"{value:.4g}"
            verdict = "within" if one["within"] else "**outside**"
            yield (f"| {row['row']} | {one['number']} | {ours} "
                   f"| {low:g} to {high:g} | {verdict} "
                   f"| {row['seconds']:.0f} | {place(row)} |")


def run_rows():
    """The runs of rows that have several: grids, domains."""
    yield from head("row", "settings", "drag", "recirculation", "seconds")
    for _, row in load("wake"):
        if len(row["runs"]) < 2:
            continue
        for run in row["runs"]:
            numbers = run["numbers"]
            settings = " ".join(
                one.removeprefix("wake.") for one in run["settings"]
                if one.startswith(("wake.rings", "wake.outer_radius")))
            yield (f"| {row['row']} | {settings} | {numbers['drag']:.5f} "
                   f"| {numbers['recirculation']:.5f} | {run['seconds']:.0f} |")


def tables():
    return [*wake_rows(), "", *run_rows()]


def section():
    if not load("wake"):
        return []
    return [
        "## The wake of a cylinder",
        "",
        "Our solver beside published numbers. Commands: `propagator data validate wake` and `wake-cycles`.",
        "[wake.md](wake.md) says what the numbers are.",
        "",
        *tables(),
        "",
    ]


def fill_pages():
    if load("wake"):
        fill("wake.md", "wake", tables())
