"""Fields from sensors: every row, in the tables of the PGT paper."""
from common import PLACE, band, head, load, place, seeds, spread

ORDER = 2.5
ABLATIONS = ("no-equation", "no-green", "neither", "siren", "film-mlp", "mlp")


def table_of(name):
    """Which table a row belongs to."""
    if name.startswith("pressure-"):
        return "pressure"
    if "-unknown" in name or name == "diffusivity":
        return "unknown"
    if name.startswith("heat"):
        return "heat"
    if "-noise-" in name or name.endswith(("-uw", "-faithful")):
        return "noise"
    if name.removeprefix("wake-pgt-") in ABLATIONS:
        return "ablation"
    return "wake"


def rows(table, more=()):
    """`more`: (heading, what it shows of a result)."""
    yield from head("row", "metric", "ours, median", "paper", "band", "seeds",
                    "spread", *(heading for heading, _ in more),
                    "residual, mean square", "sensors", "parameters",
                    "training of one seed", PLACE, "command")
    for path, row in load("reconstruct"):
        if table_of(path.stem) != table:
            continue
        r = row["result"]
        claim = f"{row['document']:.4g}" if row["document"] else "-"
        shown = "".join(f"| {show(r)} " for _, show in more)
        yield (f"| {row['row']} | {row['metric']} | {row['value']:.2e} "
               f"| {claim} | {band(row)} | {seeds(row)} | {spread(row)} {shown}"
               f"| {r['residual_mean_square']:.1e} "
               f"| {r['sensors']['training']} | {r['parameters']} "
               f"| {row['seconds'] / len(row['seeds']):.0f} s "
               f"| {place(row)} | `{row['command']}` |")


def of_field(name):
    return lambda r: f"{r['fields'][name]:.2e}" if "fields" in r else "-"


def training_error(r):
    """Mean square over the fields that were read, in units of their spread."""
    errors = r["training_fit"]["error"].values()
    return f"{sum(e**2 for e in errors) / len(errors):.1e}"


def coverage(share, fit="held_out_fit"):
    return lambda r: (f"{100 * r[fit]['coverage'][share]:.0f} %"
                      if "coverage" in r.get(fit, {}) else "-")


def end(number):
    """Of an interval, which may have none."""
    return "none" if number is None else f"{number:.4g}"


def found(r):
    parameters = [
        f"{name} = {one['value']:.4g} ({end(one['interval_95'][0])} to "
        f"{end(one['interval_95'][1])})"
        for name, one in r.get("unknowns", {}).items()]
    functions = [f"{name}, {len(one['value'])} values"
                 for name, one in r.get("functions", {}).items()]
    return "; ".join(parameters + functions)


FIELDS = [(f"relative L2 of {name}", of_field(name)) for name in "uvp"]
TABLES = [
    ("heat", "Heat along a rod", [
        "The paper's heat conduction has no diffusivity and no number of half waves: ours are in the configurations."],
     []),
    ("wake", "A wake", [
        "Velocity is read, pressure is not. The paper's numbers are of one snapshot, ours of five."],
     [*FIELDS, ("readings that trained, mean square", training_error)]),
    ("ablation", "What the physics-guided transformer needs", [
        "One part left out, or another decoder."],
     [*FIELDS, ("readings that trained, mean square", training_error)]),
    ("noise", "Noise", [
        "`-uw` predicts a variance by the paper's likelihood, `-faithful` beside the fields; coverage is of readings that",
        "did not train, and of new ones at the test's points."],
     [("noise", lambda r: f"{r['sensors']['noise']:g}"), *FIELDS,
      ("in the 50 % interval", coverage("50")),
      ("in the 90 % interval", coverage("90")),
      ("in the 90 % interval, new", coverage("90", "new_fit"))]),
    ("unknown", "Unknown parameters and functions",
     ["Parameters with the interval of 95 %."],
     [("noise", lambda r: f"{r['sensors']['noise']:g}"), ("found", found)]),
    ("pressure", "The pressure of a wake", [
        "The S-Pformer paper's Navier-Stokes column: 2500 readings of the velocity, the pressure compared."],
     FIELDS),
]


def section():
    lines = [
        "## Reconstruct",
        "",
        "Fields from scattered readings, tested everywhere. The paper is the PGT paper, if nothing else is said.",
        "[reconstruct.md](reconstruct.md) explains networks and test.",
        "",
    ]
    there = {table_of(path.stem) for path, _ in load("reconstruct")}
    for table, title, text, more in TABLES:
        if table in there:
            lines += [f"### {title}", "", *text, "", *rows(table, more), ""]
    return lines
