"""From what the results of scripts are: code, machine and compiler."""
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# What decides them. Changes of results and docs do not count.
SOURCES = ("CMakeLists.txt", "cmake", "configs", "problems", "propagator",
           "scripts", "tests")


def output(*command):
    return subprocess.run(command, cwd=ROOT, text=True, check=True,
                          stdout=subprocess.PIPE).stdout.strip()


def code():
    """The commit, with + if the sources were changed since; "" without git."""
    if not (ROOT / ".git").exists():
        return ""
    commit = output("git", "rev-parse", "--short=12", "HEAD")
    changes = output("git", "--no-optional-locks", "status", "--porcelain",
                     "--", *SOURCES)
    return commit + ("+" if changes else "")


def machine():
    """Its processor."""
    lines = output("env", "LC_ALL=C", "lscpu")
    found = re.search(r"Model name: *(.*)", lines)
    return found.group(1) if found else os.uname().machine


def expect_a_commit(draft):
    """The code. Ends the program with exit code 2, before anything is measured,
    if it is of no commit and the result is no draft."""
    commit = code()
    if not draft and (not commit or commit.endswith("+")):
        reason = (f"the sources are changed ({commit})" if commit
                  else "nobody knows of which commit the sources are")
        print(f"error: {reason}, and a result names a commit\n"
              "hint: measure from a commit, or mark the result with --draft",
              file=sys.stderr)
        sys.exit(2)
    return commit


def of_clang(commit, draft):
    """What a row that clang's tools measured says of itself."""
    return {"code": commit, "draft": draft, "machine": machine(),
            "compiler": output("clang++-14", "--version").split("\n")[0]}


def of_program(program, options):
    """What a result that was measured with the program, on one thread of the
    CPU, says of itself. Ends, before anything is measured, if it is to be
    written, was computed by changed sources and is no draft."""
    said = json.loads(subprocess.run([program, "info", "--json"], check=True,
                                     stdout=subprocess.PIPE).stdout)
    script = pathlib.Path(sys.argv[0]).name
    changed = not said["commit"] or said["commit"].endswith("+")
    if options.out and changed and not options.draft:
        sys.exit(f"{script}: the program was built from changed sources, and a "
                 "result names a commit; --draft marks it")
    return {"command": " ".join([f"scripts/{script}", *sys.argv[1:]]),
            "code": f"{said['version']} {said['commit']}", "draft": options.draft or changed,
            "machine": said["machines"][0], "device": "cpu", "precision": "fp32",
            "libtorch": said["libtorch"], "threads": 1}


def write(result, path):
    """To a file, or to be read where there is none."""
    text = json.dumps(result, indent=2) + "\n"
    if path:
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    else:
        print(text, end="")
