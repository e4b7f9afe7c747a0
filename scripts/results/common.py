"""What the parts of the results page share."""
import json

from history import ROOT, is_absent, sources

BEGIN = "<!-- by scripts/make-results from results/{} -->"
END = "<!-- end -->"


def load(folder):
    return [(path, json.loads(path.read_text()))
            for path in sorted((ROOT / "results" / folder).glob("*.json"))]


def read(name):
    return json.loads((ROOT / f"results/{name}.json").read_text())


# What is known of a row that was computed at a commit: gone when it is measured again.
CAVEATS = {
    ("forecast/base-causal-fixed", "44e09fa5e0a4"):
        "before 5620c54 and 62018d6 mended its attention kernel",
}


def is_draft(r):
    """Whether its sources are of no commit: changed since, or unknown."""
    return bool(r.get("draft") or not sources(r) or sources(r).endswith("+"))


def doubts(r):
    """What a reader must know of where it comes from."""
    known = ["draft"] if is_draft(r) else []
    if is_absent(sources(r)) and not is_draft(r):
        known.append("not in the history")
    caveat = CAVEATS.get((r.get("row"), sources(r)))
    return known + [caveat] * bool(caveat)


def commit(r):
    return ", ".join([sources(r) or "-", *(f"**{doubt}**" for doubt in doubts(r))])


def machine(r):
    return r.get("machine") or r.get("result", {}).get("machine") or "-"


def place(r):
    """The columns of PLACE."""
    device = r["device"].partition(":")[0]
    return f"{machine(r)} | {device}, {r['precision']} | {commit(r)}"


PLACE = "machine | on | commit"


def document_metric(row):
    """What the papers' number of a row, and with it its band, is of. Files from
    before the total loss was measured have that of block rows for an MSE."""
    stood_for_mse = row["metric"] == "MSE" and "block" in row["row"]
    return "total loss" if row["document"] and stood_for_mse else row["metric"]


def bands(row):
    """(metric, value, largest) of each band that a row has, of metrics that the
    file measured."""
    judged = [row] if row["metric"] == document_metric(row) else []
    judged += [row["also"]] if "also" in row else []
    return [(one["metric"], one["value"], one["band"][1])
            for one in judged if one["band"][1]]


def is_outside(row):
    return any(value > largest for _, value, largest in bands(row))


def band(row):
    """Whether a row counts as reproduced; a second band with its metric."""
    texts = [f"{'**outside**' if value > largest else 'within'} {largest:.3g}"
             + (f" ({metric}: {value:.2g})" if metric != row["metric"] else "")
             for metric, value, largest in bands(row)]
    return ", ".join(texts) or "-"


def marks(r):
    """What a reader must know who sees a number alone."""
    known = doubts(r)
    if "band" in r and is_outside(r):
        known.append("**outside**")
    return f" ({', '.join(known)})" if known else ""


def seeds(row):
    return str(len(row["seeds"])) + (
        f", {row['failed']} failed" if row.get("failed") else "")


def spread(row):
    """Of the row's metric, over seeds."""
    return f"{row['spread']:.1e}" if len(row["seeds"]) > 1 else "-"


def second_test(row):
    """The metric's median on test data of another seed."""
    second = row.get("second_test")
    return f"{second['value']:.2e}" if second else "-"


def is_field(row):
    """Whether it is a forecast of some field, not of the plate."""
    return "nrmse" in row["result"]


def is_question(row):
    """Whether it is one of those that ask what the heat-plate paper leaves open."""
    return row["row"].startswith("forecast/question-")


def head(*columns):
    """The first two lines of a table."""
    names = " | ".join(columns)
    return [f"| {names} |", "|---" * (names.count(" | ") + 1) + "|"]


def fill(page, source, rows):
    """The table between two comments of a page."""
    path = ROOT / "docs" / page
    before, begin, rest = path.read_text().partition(BEGIN.format(source))
    _, end, after = rest.partition(END)
    assert begin and end, f"{path} has lost its two comments"
    table = "\n".join(rows)
    path.write_text(f"{before}{begin}\n\n{table}\n\n{end}{after}")
