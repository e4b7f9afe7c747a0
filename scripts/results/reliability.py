"""Crash torture and faults, and the tables of docs/reliability.md."""
import pathlib
import re
import sys

from common import ROOT, commit, fill, head, load, machine
from history import sources

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent
                       / "reliability"))
import fuzz_file  # noqa: E402

ORDER = 8


# What is to be said below the table of a file, until it is measured again.
REMARKS = {
    ("reliability/sanitize-cuda", "10559d3bd463"):
        "The test that failed, without a report of any tool, held libtorch's own GELU on the GPU to more digits "
        "than that\nhas in float32. It asks for fewer since 93434ce; it has not been run under these tools again.",
    ("reliability/torture-cuda", "ac1a7808f96a"):
        "The *precise* training on the H200 that came out different shows a fault of the undisturbed one, not of "
        "resuming:\nits graph of a step went on with the slab of time before. c3e54f2 mended that; the kills have not been "
        "measured\nagain since.",
}


def files():
    return {path.stem: {"row": f"reliability/{path.stem}", **result}
            for path, result in load("reliability")}


def remark(result):
    """Lines below its table."""
    text = REMARKS.get((result.get("row"), sources(result)))
    return ["", text] if text else []


def tortures():
    return [result for name, result in files().items()
            if name.startswith("torture-")]


def mark(faults):
    return f"**{faults}**" if faults else "0"


def kill_columns(counts):
    return (f"{counts['kills']} | {counts['while_writing_a_checkpoint']} "
            f"| {counts['while_writing_the_result']} "
            f"| {counts['before_the_first_checkpoint']} | {counts['resumes']} "
            f"| {counts['runs']} | {mark(counts['lost'])} "
            f"| {mark(counts['different'])} "
            f"| {counts['seconds'] / 60:.0f} |")


def torture_rows():
    yield from head("task", "on", "kills", "while a checkpoint was written",
                    "while the result was", "before the first checkpoint",
                    "resumes", "runs", "lost", "different", "minutes", "commit")
    for result in tortures():
        place = f"{result['machine']}, {result['device']}"
        for task, counts in result["tasks"].items():
            yield f"| {task} | {place} | {kill_columns(counts)} {commit(result)} |"
        yield f"| all | {place} | {kill_columns(result)} {commit(result)} |"
    for result in tortures():
        yield from remark(result)


def what_happened(fault):
    if "failure" in fault:
        return "failed"
    return fault.get("left_out") or f"this, {fault['good']} times"


def fault_rows():
    yield from head("fault", "what must happen", "what happened", "on", "commit")
    result = files().get("faults", {"faults": {}})
    for name, fault in result["faults"].items():
        yield (f"| {name.replace('_', ' ')} | {fault['expected']} "
               f"| {what_happened(fault)} | {machine(result)} | {commit(result)} |")


def fuzz_rows():
    yield from head("reader", "executions", "faults", "most memory", "seconds",
                    "on", "commit")
    result = files().get("fuzz")
    if result is None:
        return
    rows = fuzz_file.rows_of(result)
    for row in rows:
        yield (f"| {row['target']} | {row['executions']} | {mark(row['faults'])} "
               f"| {row['peak_memory_mb']} MB | {row['seconds']:.0f} "
               f"| {machine(row)} | {commit(row)} |")
    places = {f"{machine(row)} | {commit(row)}" for row in rows}
    yield (f"| all | {result['executions']} | {mark(result['faults'])} | | "
           f"| {places.pop() if len(places) == 1 else 'as above | '} |")
    measured = {row["target"] for row in rows}
    missing = [f"`{name}`" for name in targets() if name not in measured]
    if missing:
        yield from ["", f"Not counted yet, though `scripts/fuzz` has them: {', '.join(missing)}."]


def targets():
    """All readers that are fuzzed, by the lists in tests/fuzz."""
    for path in sorted((ROOT / "tests/fuzz").glob("*_targets.cpp")):
        code = path.read_text()
        lists = code[code.index(f"std::vector<Target> {path.stem}("):]
        yield from re.findall(r"\{\"(\w+)\",", lists)


def cuda_rows():
    yield from head("tool", "tests", "failed", "not reached", "errors",
                    "of libraries", "seconds", "on", "commit")
    result = files().get("sanitize-cuda", {"code": "", "tools": {}})
    for tool, outcome in result["tools"].items():
        yield (f"| {tool} | {outcome['tests']} "
               f"| {mark(outcome['failed'])} | {len(outcome['left'])} "
               f"| {outcome['errors']} | {outcome['of_libraries']} "
               f"| {outcome['seconds']:.0f} | {result['info']['machines'][-1]} "
               f"| {commit(result)} |")
    yield from remark(result)


def section():
    if not tortures():
        return []
    return [
        "## Reliability",
        "",
        "Trainings killed at random moments and resumed until they end, compared bit by bit with runs that",
        "nobody touched. Command: `scripts/torture`. [reliability.md](reliability.md) says what is promised.",
        "",
        *head("on", "kills", "lost", "different", "commit"),
        *(f"| {r['machine']}, {r['device']} | {r['kills']} | {mark(r['lost'])} "
          f"| {mark(r['different'])} | {commit(r)} |" for r in tortures()),
        "",
    ]


def fill_pages():
    fill("reliability.md", "reliability/torture-*.json", torture_rows())
    fill("reliability.md", "reliability/faults.json", fault_rows())
    fill("reliability.md", "reliability/fuzz.json", fuzz_rows())
    fill("reliability.md", "reliability/sanitize-cuda.json", cuda_rows())
