"""results/reliability/fuzz.json: a row for each reader, with its code, machine
and compiler. Files of before had these once, for all rows."""
import json

ORIGIN = ("command", "code", "draft", "machine", "compiler")


def rows_of(result):
    """The rows of such a file, each with its own origin."""
    shared = {key: result[key] for key in ORIGIN if key in result}
    return [{**row, **{key: value for key, value in shared.items()
                       if key not in row}} for row in result["targets"]]


def update(path, known, limits, measured):
    """Puts measured rows in the place of those of the same readers. Readers that
    are not among the known ones are gone."""
    rows = {}
    if path.is_file():
        rows = {row["target"]: row for row in rows_of(json.loads(path.read_text()))}
    rows.update({row["target"]: row for row in measured})
    kept = [rows[target] for target in known if target in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({
        "sanitizers": "address,undefined", "limits": limits,
        "executions": sum(row["executions"] for row in kept),
        "faults": sum(row["faults"] for row in kept),
        "targets": kept}, indent=2) + "\n")
