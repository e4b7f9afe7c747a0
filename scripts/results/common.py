"""What the parts of the results page share."""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BEGIN = "<!-- by scripts/make-results from results/{} -->"
END = "<!-- end -->"


def load(folder):
    return [(path, json.loads(path.read_text()))
            for path in sorted((ROOT / "results" / folder).glob("*.json"))]


def commit(r):
    """Of the sources that computed it; a draft if they were changed since, or
    if nobody knows which they were."""
    sources = r["code"].partition(" ")[2]
    is_draft = r.get("draft") or not sources or sources.endswith("+")
    return (sources or "-") + (", **draft**" if is_draft else "")


def machine(r):
    return r.get("machine") or r.get("result", {}).get("machine") or "-"


def place(r):
    """The columns of PLACE."""
    device = r["device"].partition(":")[0]
    return f"{machine(r)} | {device}, {r['precision']} | {commit(r)}"


PLACE = "machine | on | commit"


def band(row):
    """Whether a row counts as reproduced."""
    largest = row["band"][1]
    if not largest:
        return "-"
    inside = row["value"] <= largest
    return f"{'within' if inside else '**outside**'} {largest:.3g}"


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
