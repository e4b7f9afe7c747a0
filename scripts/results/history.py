"""What the history says of the commits that results name: the day of each, and
which are not in it. git is asked where this is its repository; commits.txt
keeps the answer for copies without one, so that they make the same pages."""
import functools
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / "scripts/results/commits.txt"
ABSENT = "-"  # in place of a day


def sources(r):
    """The commit that computed it, "" if nobody knows."""
    code = r["code"] if "code" in r else r.get("info", {}).get("commit", "")
    return code.split(" ")[-1]


def named():
    """The commits, without the + of changed sources, each with its files."""
    commits = {}
    for path in sorted((ROOT / "results").rglob("*.json")):
        name = str(path.relative_to(ROOT / "results")).removesuffix(".json")
        for commit in commits_of(json.loads(path.read_text())):
            commits.setdefault(commit, []).append(name)
    return commits


def commits_of(r):
    """One, or several where parts of a file were measured at different times."""
    parts = [r, *(part for part in r.get("targets", []) if "code" in part)]
    return sorted({sources(part).rstrip("+") for part in parts} - {""})


def git(*arguments):
    """What it prints; "" where it fails or is not there."""
    try:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], text=True,
                              capture_output=True).stdout.strip()
    except OSError:
        return ""


def asked():
    """The day of each commit that leads here, or None: a copy without a
    repository of its own, or with a part of its history, cannot say."""
    if (not (ROOT / ".git").exists()
            or git("rev-parse", "--is-shallow-repository") != "false"):
        return None
    return dict(line.split() for line in git("log", "--format=%H %as").splitlines())


def kept():
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    return dict(line.split() for line in lines)


@functools.cache
def days():
    """The day of every commit that results name, or ABSENT; written down where
    git has said so."""
    history = asked()
    if not history:
        return kept()
    known = {commit: next((day for full, day in history.items()
                           if full.startswith(commit)), ABSENT)
             for commit in sorted(named())}
    KEPT.write_text("".join(f"{commit} {day}\n" for commit, day in known.items()))
    return known


def day(commit):
    return days().get(commit.rstrip("+"), ABSENT)


def is_absent(commit):
    """Whether nobody can find it; of one that was never looked for, too."""
    return bool(commit) and day(commit) == ABSENT
