"""The scripts that measure reliability, with stand-ins for what they measure: in
a repository of its own, what they write, what they refuse and what they count."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

FUZZ = """#!/bin/sh
case "$1" in
  --list) printf 'csv\\nnpz\\n' ;;
  --seeds) mkdir -p "$2/csv" "$2/npz" && touch "$2/csv/a" "$2/npz/a" ;;
  *) printf 'stat::number_of_executed_units: 100\\nstat::peak_rss_mb: 50\\n' >&2 ;;
esac
"""
# Tests of which one is ended by a sanitizer, as often as it is begun.
TESTS = """#!/usr/bin/env python3
import sys
tests = ["A.Passes", "A.Crashes", "A.Skips", "B/C.Fails/0", "B/C.After/1"]
if "--gtest_list_tests" in sys.argv:
    print("A.\\n  Passes\\n  Crashes\\n  Skips\\nB/C.\\n"
          "  Fails/0  # GetParam() = 1\\n  After/1  # GetParam() = 2")
    sys.exit()
flags = open(sys.argv[1].split("=", 1)[1]).read()
asked = flags.strip().split("=", 1)[1].split(":")
for test in tests:
    if test not in asked:
        continue
    print("[ RUN      ]", test, flush=True)
    if "Crashes" in test:
        print("==7==ERROR: AddressSanitizer: heap-use-after-free", flush=True)
        sys.exit(1)
    end = {"A.Skips": "[  SKIPPED ]", "B/C.Fails/0": "[  FAILED  ]"}.get(
        test, "[       OK ]")
    print(end, test + (", where GetParam() = 1" if "Fails" in test else ""),
          "(1 ms)")
print("[  FAILED  ] 1 test, listed below:\\n[  FAILED  ] B/C.Fails/0, where")
"""
OLD = {"command": "scripts/fuzz 6", "code": "d896539cc503", "machine": "Z80",
       "compiler": "clang 12", "sanitizers": "address,undefined",
       "limits": {"memory_mb": 1024}, "executions": 30, "faults": 0,
       "targets": [{"target": name, "executions": 10, "seconds": 1.0,
                    "faults": 0, "peak_memory_mb": 5, "seeds": 1}
                   for name in ("csv", "gone", "npz")]}


def load(path, name):
    """A script as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class Scripts(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        self.stand_in("scripts/setup", "#!/bin/sh\n")
        self.stand_in("scripts/build", "#!/bin/sh\n")
        self.stand_in("bin/clang++-14", "#!/bin/sh\necho clang 14.0.6\n")
        self.stand_in("build-fuzz/tests/propagator_fuzz", FUZZ)
        for build in ("build-thread", "build-address-undefined"):
            self.stand_in(f"{build}/tests/propagator_tests", TESTS)
        self.git("init", "--quiet")
        self.git("add", "scripts")
        self.git("-c", "user.name=test", "-c", "user.email=test", "commit",
                 "--quiet", "-m", "first")
        self.commit = self.git("rev-parse", "--short=12", "HEAD").strip()
        self.folder = self.root / "results/reliability"
        self.folder.mkdir(parents=True)

    def stand_in(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def git(self, *words):
        return subprocess.run(["git", *words], cwd=self.root, check=True,
                              text=True, stdout=subprocess.PIPE).stdout

    def script(self, *words):
        path = f"{self.root}/bin:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path}
        environment.pop("BUILD", None)
        return subprocess.run(
            [self.root / "scripts" / words[0], *words[1:]], text=True,
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def change(self):
        with (self.root / "scripts/fuzz").open("a") as file:
            file.write("# changed\n")

    def result(self, name):
        return json.loads((self.folder / f"{name}.json").read_text())

    def fuzzed(self):
        return {row["target"]: row for row in self.result("fuzz")["targets"]}

    def test_a_row_says_from_what_it_is(self):
        done = self.script("fuzz", "0")
        self.assertEqual(done.returncode, 0, done.stdout)
        result = self.result("fuzz")
        self.assertEqual(result["executions"], 200)
        self.assertEqual(result["limits"]["single_allocation_mb"], 256)
        for row in result["targets"]:
            self.assertEqual(row["code"], self.commit)
            self.assertEqual(row["compiler"], "clang 14.0.6")
            self.assertTrue(row["machine"])
            self.assertFalse(row["draft"])

    def test_changed_sources_make_drafts_alone(self):
        for script, name in (("fuzz", "fuzz"), ("sanitize", "sanitize-cpu")):
            words = [script, *(["0"] if script == "fuzz" else [])]
            self.script(*words)
            before = self.result(name)
            self.change()
            refused = self.script(*words)
            self.assertEqual(refused.returncode, 2, refused.stdout)
            self.assertIn(f"the sources are changed ({self.commit}+)",
                          refused.stdout)
            self.assertIn("--draft", refused.stdout)
            looked = self.script(*words, "--no-result")
            self.assertNotEqual(looked.returncode, 2, looked.stdout)
            self.assertEqual(self.result(name), before)
            self.script(*words, "--draft")
            after = self.result(name)
            for row in after["targets" if script == "fuzz" else "rows"]:
                self.assertEqual(row["code"], f"{self.commit}+")
                self.assertTrue(row["draft"])
            self.git("checkout", "--quiet", "scripts")
        (self.root / "results/other.json").write_text("{}")  # does not count
        self.assertEqual(self.script("fuzz", "0").returncode, 0)

    def test_a_part_is_measured_again(self):
        (self.folder / "fuzz.json").write_text(json.dumps(OLD))
        done = self.script("fuzz", "0", "csv")
        self.assertEqual(done.returncode, 0, done.stdout)
        rows = self.fuzzed()
        self.assertEqual(list(rows), ["csv", "npz"])  # one is gone
        self.assertEqual(rows["csv"]["code"], self.commit)
        self.assertEqual(rows["csv"]["command"], "scripts/fuzz 0 csv")
        self.assertEqual(rows["npz"], {**OLD["targets"][2], **{
            key: OLD[key] for key in ("command", "code", "machine", "compiler")}})
        self.assertEqual(self.result("fuzz")["executions"], 110)
        unknown = self.script("fuzz", "0", "cvs")
        self.assertNotEqual(unknown.returncode, 0)
        self.assertIn("there are csv, npz", unknown.stdout)

    def test_the_table_reads_old_files_and_new_ones(self):
        sys.path.insert(0, str(self.root / "scripts/results"))
        self.addCleanup(sys.path.remove, str(self.root / "scripts/results"))
        table = load(self.root / "scripts/results/reliability.py", "table")
        (self.folder / "fuzz.json").write_text(json.dumps(OLD))
        old = list(table.fuzz_rows())
        # A table may add what it knows of that commit.
        def has(rows, begin):
            return any(row.startswith(begin) for row in rows)
        self.assertTrue(has(old, "| npz | 10 | 0 | 5 MB | 1 | Z80 | d896539cc503"), old)
        self.assertTrue(has(old, "| all | 30 | 0 | | | Z80 | d896539cc503"), old)
        self.change()
        self.script("fuzz", "0", "csv", "--draft")
        new = list(table.fuzz_rows())
        self.assertTrue(has(new, "| npz | 10 | 0 | 5 MB | 1 | Z80 | d896539cc503"), new)
        self.assertTrue(any(f"{self.commit}+, **draft** |" in row for row in new))
        self.assertEqual(len({row.count("|") for row in new}), 1)

    def test_sanitizers_count_every_test_once(self):
        for only in ("thread", "address,undefined"):
            done = self.script("sanitize", "--only", only)
            self.assertEqual(done.returncode, 1, done.stdout)
        rows = self.result("sanitize-cpu")["rows"]
        self.assertEqual([row["sanitizers"] for row in rows],
                         ["address,undefined", "thread"])
        for row in rows:
            self.assertEqual(
                {key: row[key] for key in ("tests", "passed", "failed", "skipped",
                                           "reports", "code")},
                {"tests": 5, "passed": 2, "failed": 2, "skipped": 1,
                 "reports": 1, "code": self.commit})

    def test_kills_are_shared_by_the_tasks(self):
        torture = load(self.root / "scripts/torture", "torture")
        self.assertEqual(torture.shares(1000, "abc"), {"a": 334, "b": 333, "c": 333})
        self.assertEqual(torture.shares(1, "ab"), {"a": 1, "b": 0})
        self.assertIn("recipe=precise", torture.trials.SETTINGS["precise"])

    def test_faults_that_were_left_out_are_no_success(self):
        faults = load(self.root / "scripts/faults", "faults")
        self.enterContext(unittest.mock.patch.dict(
            os.environ, {"PRIVATE_MOUNTS": "yes"}))
        self.enterContext(unittest.mock.patch.object(sys, "argv", ["faults"]))
        good = {"expected": "", "good": 1}
        for outcomes, status in (
                ({"a": good}, None),
                ({"a": good, "b": {**good, "left_out": "no right to mount"}}, 77),
                ({"a": {**good, "failure": "lost"},
                  "b": {**good, "left_out": "no right to mount"}}, "lost")):
            said = io.StringIO()
            faults.try_all = lambda folder: {"faults": outcomes}
            with contextlib.redirect_stdout(io.StringIO()), \
                    contextlib.redirect_stderr(said):
                try:
                    faults.main()
                    got = None
                except SystemExit as end:
                    got = end.code
            if status == "lost":
                self.assertIn("what is left of them", got)
            else:
                self.assertEqual(got, status)
                self.assertEqual("b (no right to mount)" in said.getvalue(),
                                 status == 77)


if __name__ == "__main__":
    unittest.main()
