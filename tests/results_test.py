#!/usr/bin/env python3
"""Tests of scripts/make-results, in a copy of the tree: pages are as the files
say, and mark what proves nothing."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts/results"))
import common  # noqa: E402
import history  # noqa: E402

PARTS = ("scripts", "results", "docs", "tests/fuzz", "README.md")
SKIPPED = 77


def git(folder, *arguments):
    return subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=test",
         "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false", *arguments],
        capture_output=True, text=True, check=True).stdout.strip()


class Copy:
    """Of what make-results reads and writes."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        for part in PARTS:
            (self.folder / part).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            copy(ROOT / part, self.folder / part)

    def make(self):
        subprocess.run([self.folder / "scripts/make-results"], check=True)

    def page(self, name):
        return (self.folder / name).read_text()

    def line(self, page, beginning, after=""):
        text = self.page(page)
        at = text.index("\n" + beginning, text.index(after)) + 1
        return text[at:text.index("\n", at)]

    def change(self, name, **values):
        path = self.folder / f"results/{name}.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def pages(folder):
    """Those with a table that make-results writes."""
    found = [page for page in [folder / "README.md", *(folder / "docs").glob("*.md")]
             if "<!-- by scripts/make-results" in page.read_text()]
    return sorted(str(page.relative_to(folder))
                  for page in [*found, folder / "docs/results.md"])


def row(**values):
    return {"row": "forecast/base-block", "code": "0.1.0 c0ffee", "metric": "MSE",
            "value": 2e-7, "document": 1e-6, "band": [0, 3e-6], **values}


class MakeResults(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.copy = Copy(self.place.name)

    def test_pages_are_those_of_the_files(self):
        names = pages(ROOT)
        for page in ("README.md", "bench", "forecast", "greens", "locate",
                     "reliability", "results", "solve", "tuning", "wake"):
            self.assertIn(page if "." in page else f"docs/{page}.md", names)
        self.copy.make()
        for page in names:
            self.assertEqual(self.copy.page(page), (ROOT / page).read_text(),
                             f"{page}: scripts/make-results writes it")

    def test_what_proves_nothing_is_marked(self):
        best = json.loads((ROOT / "results/solve/wave-best.json").read_text())
        self.copy.change("solve/wave-best", code="0.1.0 c0ffee+", machine="Z80",
                         band=[0, best["value"] / 2])
        self.copy.make()
        for line in (self.copy.line("docs/results.md", "| solve/wave-best "),
                     self.copy.line("docs/solve.md", "| wave ", "solve, best")):
            for mark in ("c0ffee+, **draft**", "**outside**", "Z80"):
                self.assertIn(mark, line)
        self.assertIn("(draft, **outside**)",
                      self.copy.line("README.md", "| wave equation"))

    def test_a_commit_that_is_gone_is_marked_in_every_table(self):
        gone = "0.1.0 c0ffeec0ffee"
        for name in ("solve/wave-best", "forecast/base-block", "wake/re-100",
                     "bench/heat-step-block-cuda", "locate/cylinder",
                     "reliability/torture-cpu", "reliability/faults",
                     "greens/attention-h200", "closure/wave-51-tf32"):
            self.copy.change(name, code=gone)
        self.copy.make()
        mark = "c0ffeec0ffee, **not in the history**"
        killed = json.loads((ROOT / "results/reliability/torture-cpu.json").read_text())
        for page, beginning, after in [
                ("docs/results.md", "| solve/wave-best ", ""),
                ("docs/results.md", "| forecast/base-block ", ""),
                ("docs/solve.md", "| wave ", "solve, best"),
                ("docs/forecast.md", "| base-block ", "forecast, classical"),
                ("docs/locate.md", "| cylinder ", "results/locate"),
                ("docs/reliability.md", f"| all | {killed['machine']}, cpu ", "torture"),
                ("docs/reliability.md", "| full disk ", "faults.json"),
                ("docs/greens.md", "| 1024 ", "results/greens")]:
            self.assertIn(mark, self.copy.line(page, beginning, after))
        for page in ("docs/wake.md", "docs/bench.md"):
            self.assertIn(mark, self.copy.page(page))
        for beginning in ("| wave equation", "| heat plate, 401 frames"):
            self.assertIn("(not in the history)",
                          self.copy.line("README.md", beginning))
        self.assertIn("| c0ffeec0ffee | **not in the history** | 9 |",
                      self.copy.page("docs/results.md"))

    def test_failures_of_a_tool_are_shown(self):
        result = json.loads((ROOT / "results/reliability/sanitize-cuda.json").read_text())
        result["tools"]["memcheck"]["failed"] = 17
        self.copy.change("reliability/sanitize-cuda", tools=result["tools"])
        self.copy.make()
        self.assertIn("| **17** |", self.copy.line("docs/reliability.md", "| memcheck "))

    def test_a_reader_that_was_not_fuzzed_is_named(self):
        fuzz = json.loads((ROOT / "results/reliability/fuzz.json").read_text())
        fewer = [target for target in fuzz["targets"] if target["target"] != "csv"]
        self.copy.change("reliability/fuzz", targets=fewer)
        self.copy.make()
        self.assertIn("`csv`", self.copy.line("docs/reliability.md", "Not counted yet"))


class History(unittest.TestCase):
    """A repository of two commits, with a branch that leads nowhere."""

    def setUp(self):
        if not shutil.which("git"):
            self.skipTest("no git")
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        copy = Copy(self.place.name)
        self.folder, self.copy = copy.folder, copy
        git(self.folder, "init", "-q", "-b", "main")
        git(self.folder, "add", "README.md")
        git(self.folder, "commit", "-qm", "one", "--date", "2020-02-02T12:00:00Z")
        self.there = git(self.folder, "rev-parse", "--short=12", "HEAD")
        git(self.folder, "checkout", "-qb", "aside")
        git(self.folder, "commit", "-qm", "two", "--allow-empty")
        self.aside = git(self.folder, "rev-parse", "--short=12", "HEAD")
        git(self.folder, "checkout", "-q", "main")
        copy.change("solve/wave-best", code=f"0.1.0 {self.there}")
        copy.change("solve/reaction-best", code=f"0.1.0 {self.aside}")

    def test_git_knows_what_leads_here_and_a_copy_without_it_says_the_same(self):
        self.copy.make()
        there = self.copy.line("docs/solve.md", "| wave ", "solve, best")
        aside = self.copy.line("docs/solve.md", "| reaction ", "solve, best")
        self.assertIn(f"| {self.there} |", there)
        self.assertIn(f"{self.aside}, **not in the history**", aside)
        self.assertIn(f"| {self.there} | 2020-02-02 | 1 |",
                      self.copy.page("docs/results.md"))
        names = pages(self.folder)
        texts = [self.copy.page(page) for page in names]
        shutil.rmtree(self.folder / ".git")
        self.copy.make()
        self.assertEqual([self.copy.page(page) for page in names], texts)

    def test_a_shallow_clone_does_not_call_all_commits_gone(self):
        self.copy.make()
        git(self.folder, "commit", "-qam", "three")
        text = self.copy.page("docs/solve.md")
        shallow = (self.folder / ".git/shallow")
        shallow.write_text(git(self.folder, "rev-parse", "HEAD") + "\n")
        self.copy.make()
        self.assertEqual(self.copy.page("docs/solve.md"), text)

    def test_the_list_is_that_of_this_repository(self):
        days = history.asked()
        if not days:
            self.skipTest("no repository here")
        for commit, day in history.kept().items():
            known = [at for full, at in days.items() if full.startswith(commit)]
            self.assertEqual(known or [history.ABSENT], [day], commit)


class Bands(unittest.TestCase):
    def test_are_of_the_metric_that_was_measured(self):
        self.assertEqual(common.band(row()), "-")
        self.assertFalse(common.is_outside(row(value=1)))
        total = row(metric="total loss")
        self.assertEqual(common.band(total), "within 3e-06")
        self.assertEqual(common.band({**total, "value": 1}), "**outside** 3e-06")
        causal = row(row="forecast/base-causal")
        self.assertEqual(common.band(causal), "within 3e-06")
        ours = row(row="forecast/base-block-fixed", document=None)
        self.assertEqual(common.band(ours), "within 3e-06")

    def test_a_caveat_goes_with_its_commit(self):
        name = "forecast/base-causal-fixed"
        caveat = common.CAVEATS[name, "44e09fa5e0a4"]
        self.assertIn(caveat, common.marks(row(row=name, code="0.1.0 44e09fa5e0a4")))
        self.assertNotIn(caveat, common.commit(row(row=name, code="0.1.0 c5750ba090ac")))


class Compositions(unittest.TestCase):
    def test_the_page_has_what_the_script_counts(self):
        printed = subprocess.run([ROOT / "scripts/compositions"], text=True,
                                 capture_output=True, check=True).stdout
        numbers = {line.split()[0]: line for line in printed.splitlines()
                   if not line.startswith(" ")}
        total = next(iter(numbers))
        self.assertIn(f"counts {int(total):,} compositions".replace(",", " "),
                      (ROOT / "docs/solve.md").read_text())
        for number in ("370991", "366959"):  # the wave's are found
            self.assertNotIn(" 0 with the stated", numbers[number])
        self.assertIn("5, of them 0 with the stated", numbers["305551"])
        self.assertIn("1, of them 0 with the stated", numbers["305891"])


if __name__ == "__main__":
    if not shutil.which("gnuplot") and "CI" not in os.environ:
        print("NOT TESTED: there is no gnuplot, which make-results draws with")
        sys.exit(SKIPPED)
    unittest.main()
