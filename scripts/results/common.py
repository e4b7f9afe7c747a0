"""What the parts of the results page share."""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BEGIN = "<!-- by scripts/make-results from results/{} -->"
END = "<!-- end -->"


def load(folder):
    return [(path, json.loads(path.read_text()))
            for path in sorted((ROOT / "results" / folder).glob("*.json"))]


def fill(page, source, rows):
    """The table between two comments of a page."""
    path = ROOT / "docs" / page
    before, begin, rest = path.read_text().partition(BEGIN.format(source))
    _, end, after = rest.partition(END)
    assert begin and end, f"{path} has lost its two comments"
    table = "\n".join(rows)
    path.write_text(f"{before}{begin}\n\n{table}\n\n{end}{after}")
