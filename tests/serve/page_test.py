#!/usr/bin/env python3
"""The page of `propagator serve` in a browser, driven as a reader drives it.
$PROPAGATOR is the program."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    if "CI" in os.environ:
        raise SystemExit("there is no chromium")
    print("NOT TESTED: there is no chromium")
    sys.exit(77)

try:
    import numpy  # noqa: F401  (the client's)
except ModuleNotFoundError:
    if "CI" in os.environ:
        raise
    print("NOT TESTED: there is no numpy")
    sys.exit(77)

sys.dont_write_bytecode = True
from browser import Browser  # noqa: E402
from client import Client, Server  # noqa: E402

PROGRAM = os.environ["PROPAGATOR"]
CONFIGS = pathlib.Path(os.environ["PROPAGATOR_CONFIGS"])
KEY = "a-key-that-is-long-enough"

RUNS = {
    "plate": (CONFIGS / "forecast/tiny.yaml", ["train.max_steps=12"]),
    "rod": ("""
task: solve
problem:
  domain: ['x in [0, 1]', 't in [0, 2]']
  fields: u
  equations: ['u_t = 0.1*u_xx']
  conditions: ['at t=0: u = sin(pi*x)', 'on x=0: u = 0', 'on x=1: u = 0']
points: {per_axis: 5, validation_per_axis: 3}
model: {name: pinn, width: 8}
train: {max_steps: 2}
report: {page: no}
""", []),
    "cube": (CONFIGS / "locate/corners.yaml", [
        "data.events=2000", "data.resample_every=0", "data.validation=100",
        "eval.events=100", "eval.classical=10", "train.batch=100", "train.max_steps=4",
        "train.validate_every=4", "model.width=16", "report.page=no"]),
}

ANSWERED = "/answered in/.test(document.querySelector('main').textContent)"


def train(runs, name):
    config, options = RUNS[name]
    if isinstance(config, str):
        text, config = config, runs / f"{name}.yaml"
        config.write_text(text)
    said = subprocess.run(
        [PROGRAM, "train", str(config), "--runs", str(runs), "--name", name, "--threads", "1",
         "--device", "cpu", *(part for option in options for part in ("-s", option))],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if said.returncode != 0:
        raise RuntimeError(said.stdout)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        for name in RUNS:
            train(cls.folder, name)
        cls.server = Server(PROGRAM, *(cls.folder / name for name in RUNS), "--threads", "1")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.temporary.cleanup()

    def open(self, name="", **options):
        browser = Browser(CHROMIUM, f"{self.server.url}/#{name}", **options)
        self.addCleanup(browser.__exit__)
        browser.wait("document.querySelector('#model h2')")
        return browser

    def opened(self, name, **options):
        browser = self.open(name, **options)
        browser.wait(ANSWERED)
        return browser

    def readout(self, browser):
        data = browser.run("({...document.querySelector('.readout').dataset})")
        return {key: float(value) for key, value in data.items()}

    def forecast_at(self, page, row, col, frame):
        page.run(f"{{const time = document.querySelector('input.time'); time.value = {frame};"
                 "time.dispatchEvent(new Event('input'))}")
        page.call("Input.dispatchMouseEvent", type="mouseMoved",
                  **page.place("canvas.prediction", (col + 0.5) / 8, (row + 0.5) / 8))
        return self.readout(page)["value"]

    def asked(self, model, inputs, output):
        """What the server says to the numbers themselves."""
        status, outputs, _ = Client(self.server.port).infer(model, inputs)
        self.assertEqual(status, 200, outputs)
        return outputs[output]

    def test_lists_the_models_and_what_they_take(self):
        page = self.opened("rod")
        self.assertEqual(page.run("[...document.querySelectorAll('#models a')]"
                                  ".map(a => a.textContent)"), list(RUNS))
        self.assertEqual(page.run("document.querySelector('#models [aria-current]').textContent"),
                         "rod")
        table = page.run("document.querySelector('details').textContent")
        for text in ("x", "0 to 1", "0 to 2", "of each point"):
            self.assertIn(text, table)
        self.assertEqual(page.complaints, [])

    def test_forecasts_what_is_painted(self):
        page = self.opened("plate")
        before = page.run("document.querySelector('canvas.prediction').toDataURL()")
        inside = "document.querySelector('canvas.paint').getContext('2d')" \
                 ".getImageData(4, 4, 1, 1).data.join()"
        colour = page.run(inside)
        page.run("{const reach = document.querySelector('[aria-label=brush]');"
                 "reach.value = 0.5; reach.dispatchEvent(new Event('input'))}")
        page.drag("canvas.paint", [(0.31, 0.56), (0.56, 0.56)])
        self.assertNotEqual(page.run(inside), colour)
        page.wait("document.querySelector('canvas.prediction').toDataURL() !== "
                  + json.dumps(before))
        # The model was given the painted frame, and a step of the simulator.
        details = Client(self.server.port).get("/v2/models/plate")[1]["parameters"]["details"]

        def at(row, col, frame=0):
            return self.forecast_at(page, row, col, frame)
        middle = at(4, 4)
        self.assertEqual(middle, 1)
        step = details["alpha_dt"] * (
            (at(4, 3) - 2 * middle + at(4, 5)) / details["dx"] ** 2 +
            (at(3, 4) - 2 * middle + at(5, 4)) / details["dy"] ** 2)
        self.assertLess(step, 0)
        self.assertAlmostEqual(at(4, 4, 1), middle + step, delta=1e-6)
        at(4, 4, 15)
        self.assertEqual(self.readout(page)["frame"], 15)
        self.assertIn("inside the range of the training data",
                      page.run("document.querySelector('main').textContent"))
        self.assertEqual(page.complaints, [])

    def test_draws_a_field_and_reads_it(self):
        import numpy as np
        page = self.opened("rod")
        page.call("Input.dispatchMouseEvent", type="mouseMoved",
                  **page.place("canvas.map", 60.5 / 80, 20.5 / 80))
        said = self.readout(page)
        self.assertEqual((said["row"], said["col"]), (20, 60))
        expected = self.asked("rod", {"x": np.array([60.5 / 80]),
                                       "t": np.array([2 - 2 * 20.5 / 80])}, "u")
        self.assertAlmostEqual(said["value"], expected[0], delta=1e-6)
        page.click("input[type=checkbox]")
        page.wait("/residual of the equation \\d/.test("
                  "document.querySelector('main').textContent)")
        self.assertEqual(page.complaints, [])

    def test_locates_what_is_clicked(self):
        page = self.opened("cube")
        before = self.readout(page)
        count = "document.querySelectorAll('.scene:first-child .hit').length"
        hits = page.run(count)
        page.run("(document.querySelector('.sensor:not(.hit)') || "
                 "document.querySelector('.sensor')).dispatchEvent("
                 "new MouseEvent('click', {bubbles: true}))")
        self.assertEqual(abs(page.run(count) - hits), 1)
        page.click(".scene svg", 0.4, 0.6)
        page.wait("document.querySelector('.readout').dataset.x !== "
                  + json.dumps(str(before["x"])))
        self.assertIn("m (flash ", page.run("document.querySelector('.readout').textContent"))
        self.assertEqual(page.complaints, [])

    def test_asks_as_json_and_says_what_is_wrong(self):
        page = self.opened("rod")
        page.run("document.querySelectorAll('details')[1].open = true")
        page.run("[...document.querySelectorAll('button')].find("
                 "b => b.textContent === 'Ask').click()")
        page.wait("document.querySelector('.answer').textContent.includes('model_name')")
        page.run("document.querySelector('textarea').value = '{<b>'")
        page.run("[...document.querySelectorAll('button')].find("
                 "b => b.textContent === 'Ask').click()")
        page.wait("document.querySelector('details [role=alert]:not([hidden])')")
        self.assertIn("expected JSON", page.run(
            "document.querySelector('details [role=alert]:not([hidden])').textContent"))

    def test_checks_a_problem(self):
        page = self.open("rod")
        said = "document.querySelector('#check .verdict:not([hidden])')?.textContent"
        page.click("#check button")
        page.wait(said)
        self.assertRegex(page.run(said), r"^good: a network of \d+ parameters")
        self.assertIn("u_tt", page.run("document.querySelector('#check pre').textContent"))
        page.run("{const text = document.querySelector('#check textarea');"
                 "text.value = text.value.replace('4*u_xx', '4*<img src=x>_xx')}")
        page.click("#check button")
        page.wait("document.querySelector('#check .verdict.bad')")
        self.assertIn("problem:9:", page.run(said))
        self.assertEqual(page.run("document.images.length"), 0)

    def test_shows_a_training_while_it_lasts(self):
        config, _ = RUNS["plate"]
        with subprocess.Popen(
                [PROGRAM, "train", str(config), "--runs", str(self.folder), "--name", "watched",
                 "--threads", "1", "--device", "cpu", "--watch", "-s", "train.max_steps=100000"],
                text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as training:
            try:
                url = next(found[0] for found in (re.search(r"http://127\.0\.0\.1:\d+", line)
                                                  for line in training.stderr) if found)
                with Browser(CHROMIUM, url, width=360, height=740, touch=True) as page:
                    page.wait("document.querySelector('.legend')?.textContent"
                              ".includes('validation ')")
                    self.assertEqual(page.run("document.querySelector('h1').textContent"),
                                     "watched")
                    page.wait("/a second/.test(document.querySelector('#tiles').textContent)")
                    tiles = page.run("document.querySelector('#tiles').textContent")
                    self.assertRegex(tiles, r"step\d+ of 100000rate.*time left.*best validation")
                    done = page.run("document.querySelector('progress').value")
                    page.wait(f"document.querySelector('progress').value > {done}")
                    self.assertLessEqual(
                        page.run("document.documentElement.scrollWidth"), 360)
                    self.assertEqual(page.complaints, [])
                    training.send_signal(signal.SIGINT)
                    training.communicate(timeout=60)
                    self.assertEqual(training.returncode, 75)
                    page.wait("/has ended/.test(document.querySelector('#state').textContent)")
            finally:
                training.kill()

    def test_fits_a_phone_and_the_dark(self):
        for name in RUNS:
            page = self.opened(name, width=360, height=740, touch=True, dark=True)
            self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 360, name)
            ground = page.run("getComputedStyle(document.body).backgroundColor")
            self.assertEqual(ground, "rgb(20, 23, 27)")
            self.assertEqual(page.complaints, [])

    def test_asks_for_the_key_and_forgets_it(self):
        with Server(PROGRAM, self.folder / "rod", "--threads", "1",
                    environment={**os.environ, "PROPAGATOR_API_KEY": KEY}) as server, \
                Browser(CHROMIUM, server.url) as page:
            shown = "document.querySelector('#key:not([hidden])')"
            page.wait(shown)
            self.assertFalse(page.run("Boolean(document.querySelector('#model h2'))"))
            page.run(f"document.querySelector('#key input').value = '{KEY}'")
            page.click("#key button")
            page.wait(ANSWERED)
            self.assertFalse(page.run(f"Boolean({shown})"))
            page.call("Page.reload")
            page.wait(shown)


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")
