"""What the parts of the results page share."""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BEGIN = "<!-- by scripts/make-results from results/{} -->"
END = "<!-- end -->"


def load(folder):
    return [(path, json.loads(path.read_text()))
            for path in sorted((ROOT / "results" / folder).glob("*.json"))]


def read(name):
    return json.loads((ROOT / f"results/{name}.json").read_text())


def sources(r):
    """The commit that computed it, "" if nobody knows."""
    return r["code"].partition(" ")[2]


def is_draft(r):
    """Whether its sources are of no commit: changed since, or unknown."""
    return bool(r.get("draft") or not sources(r) or sources(r).endswith("+"))


def commit(r):
    return (sources(r) or "-") + (", **draft**" if is_draft(r) else "")


def machine(r):
    return r.get("machine") or r.get("result", {}).get("machine") or "-"


def place(r):
    """The columns of PLACE."""
    device = r["device"].partition(":")[0]
    return f"{machine(r)} | {device}, {r['precision']} | {commit(r)}"


PLACE = "machine | on | commit"


def bands(row):
    """(metric, value, largest) of each band that a row has."""
    judged = [row, *([row["also"]] if "also" in row else [])]
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
    known = ["draft"] if is_draft(r) else []
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
