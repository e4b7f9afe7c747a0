"""Crash torture and faults, and the tables of docs/reliability.md."""
import pathlib
import sys

from common import fill, load

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent
                       / "reliability"))
import fuzz_file  # noqa: E402

ORDER = 8


def files():
    return {path.stem: result for path, result in load("reliability")}


def tortures():
    return [result for name, result in files().items()
            if name.startswith("torture-")]


def kill_columns(counts):
    return (f"{counts['kills']} | {counts['while_writing_a_checkpoint']} "
            f"| {counts['while_writing_the_result']} "
            f"| {counts['before_the_first_checkpoint']} | {counts['resumes']} "
            f"| {counts['runs']} | {counts['lost']} | {counts['different']} "
            f"| {counts['seconds'] / 60:.0f} |")


def torture_rows():
    yield ("| task | on | kills | while a checkpoint was written | while the "
           "result was | before the first checkpoint | resumes | runs | lost "
           "| different | minutes |")
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for result in tortures():
        place = f"{result['machine']}, {result['device']}"
        for task, counts in result["tasks"].items():
            yield f"| {task} | {place} | {kill_columns(counts)}"
        yield f"| all | {place} | {kill_columns(result)}"


def fault_rows():
    yield "| fault | what must happen | what happened |"
    yield "|---|---|---|"
    for name, fault in files().get("faults", {}).get("faults", {}).items():
        outcome = ("failed" if "failure" in fault else
                   fault.get("left_out") or f"this, {fault['good']} times")
        yield f"| {name.replace('_', ' ')} | {fault['expected']} | {outcome} |"


def fuzz_rows():
    yield "| reader | executions | faults | most memory | seconds | on | code |"
    yield "|---|---|---|---|---|---|---|"
    result = files().get("fuzz")
    if result is None:
        return
    rows = fuzz_file.rows_of(result)
    for row in rows:
        yield (f"| {row['target']} | {row['executions']} | {row['faults']} "
               f"| {row['peak_memory_mb']} MB | {row['seconds']:.0f} "
               f"| {row['machine']} | {fuzz_code(row)} |")
    places = {f"{row['machine']} | {fuzz_code(row)}" for row in rows}
    yield (f"| all | {result['executions']} | {result['faults']} | | "
           f"| {places.pop() if len(places) == 1 else 'as above | '} |")


def fuzz_code(row):
    """The commit of a row, and whether it proves nothing."""
    draft = row.get("draft") or row["code"].endswith("+") or not row["code"]
    return (row["code"] or "-") + (", **draft**" if draft else "")


def cuda_rows():
    yield "| tool | tests | not reached | errors | of libraries | seconds | on | code |"
    yield "|---|---|---|---|---|---|---|---|"
    result = files().get("sanitize-cuda", {"tools": {}})
    for tool, outcome in result["tools"].items():
        info = result["info"]
        yield (f"| {tool} | {outcome['tests']} | {len(outcome['left'])} "
               f"| {outcome['errors']} | {outcome['of_libraries']} "
               f"| {outcome['seconds']:.0f} | {info['machines'][-1]} "
               f"| {info['commit']} |")


def section():
    if not tortures():
        return []
    return [
        "## Reliability",
        "",
        "Trainings killed at random moments and resumed until they end, compared bit by bit with runs that",
        "nobody touched. Command: `scripts/torture`. [reliability.md](reliability.md) says what is promised.",
        "",
        "| on | kills | lost | different | code |",
        "|---|---|---|---|---|",
        *(f"| {r['machine']}, {r['device']} | {r['kills']} | {r['lost']} "
          f"| {r['different']} | {r['code']} |" for r in tortures()),
        "",
    ]


def fill_pages():
    fill("reliability.md", "reliability/torture-*.json", torture_rows())
    fill("reliability.md", "reliability/faults.json", fault_rows())
    fill("reliability.md", "reliability/fuzz.json", fuzz_rows())
    fill("reliability.md", "reliability/sanitize-cuda.json", cuda_rows())
