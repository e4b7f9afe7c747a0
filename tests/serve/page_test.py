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
import time
import unittest

CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    if "CI" in os.environ:
        raise SystemExit("there is no chromium")
    print("NOT TESTED: there is no chromium")
    sys.exit(77)

try:
    import numpy as np
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
    "bar": ("""
task: reconstruct
problem:
  domain: ['x in [0, 1]', 't in [0, 2]']
  fields: [u, q]
  equations: [u_t = -q_x, q = -0.1*u_x]
  exact:
    - u = exp(-0.1*pi^2*t)*sin(pi*x)
    - q = -0.1*pi*exp(-0.1*pi^2*t)*cos(pi*x)
sensors: {count: 20}
model: {name: siren, width: 8, layers: 1}
points: {per_axis: 4, validation_per_axis: 3}
eval: {per_axis: 4}
train: {max_steps: 2}
report: {page: no}
""", []),
    "line": ("""
task: forecast
data: {file: DATA, given: 2}
model: {name: fno, width: 4, modes: 4}
train: {max_steps: 3}
report: {page: no}
""", []),
    "cube": (CONFIGS / "locate/corners.yaml", [
        "data.events=2000", "data.resample_every=0", "data.validation=100",
        "eval.events=100", "eval.classical=10", "train.batch=100", "train.max_steps=4",
        "train.validate_every=4", "model.width=16", "report.page=no"]),
}
RUNS["sheet"] = RUNS["line"]
# Histories that are learned from: cases, frames, nodes, and channels of the sheet.
FIELDS = {"line": (12, 6, 16), "sheet": (12, 6, 12, 10, 2)}

ANSWERED = "/answered in/.test(document.querySelector('main').textContent)"


def train(runs, name):
    config, options = RUNS[name]
    if isinstance(config, str):
        text, config = config, runs / f"{name}.yaml"
        data = runs / f"{name}.npz"
        if name in FIELDS:
            np.savez(data, fields=np.random.default_rng(0).random(FIELDS[name]))
        config.write_text(text.replace("DATA", str(data)))
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

    def forecast_at(self, page, row, col, frame, nodes=(8, 8)):
        self.set(page, "input.time", frame)
        self.hover(page, "canvas.prediction", (col + 0.5) / nodes[1], (row + 0.5) / nodes[0])
        return self.readout(page)["value"]

    def hover(self, page, selector, across, down):
        page.call("Input.dispatchMouseEvent", type="mouseMoved",
                  **page.place(selector, across, down))

    def set(self, page, selector, value, event="input"):
        page.run(f"{{const node = document.querySelector({json.dumps(selector)});"
                 f"node.value = {json.dumps(value)}; node.dispatchEvent(new Event('{event}'))}}")

    def press(self, page, text):
        page.run("[...document.querySelectorAll('main button')].find("
                 f"button => button.textContent === {json.dumps(text)}).click()")

    def changing(self, page, selector, action):
        """Does it, and waits until the picture is another one, which stays."""
        picture = f"document.querySelector({json.dumps(selector)}).toDataURL()"
        before = page.run(picture)
        action()
        page.wait(f"{picture} !== {json.dumps(before)}")
        after = None
        while after != (after := page.run(picture)):
            time.sleep(0.3)  # a browser gives a stroke's last moves when it draws
            page.wait("document.body.getAttribute('aria-busy') === 'false'")

    def answered_since(self, page, action):
        """Does it, and waits for what the server says to it."""
        page.run("document.querySelector('main .explorer > .missing,"
                 "main .explorer > .verdict').textContent = ''")
        action()
        page.wait(ANSWERED)

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
        inside = "document.querySelector('canvas.paint').getContext('2d')" \
                 ".getImageData(4, 4, 1, 1).data.join()"
        colour = page.run(inside)
        self.set(page, "[aria-label=brush]", 0.5)
        self.changing(page, "canvas.prediction", lambda: page.drag(
            "canvas.paint", [(0.31, 0.56), (0.56, 0.56)]))
        self.assertNotEqual(page.run(inside), colour)
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

    def test_a_finger_paints(self):
        page = self.opened("plate", width=360, height=740, touch=True)
        inside = "document.querySelector('canvas.paint').getContext('2d')" \
                 ".getImageData(4, 4, 1, 1).data.join()"
        colour = page.run(inside)
        self.set(page, "[aria-label=brush]", 0.5)
        self.changing(page, "canvas.prediction", lambda: page.touch(
            "canvas.paint", [(0.31, 0.31), (0.44, 0.44), (0.56, 0.56)]))
        self.assertNotEqual(page.run(inside), colour)
        self.assertEqual(page.complaints, [])

    def test_forecasts_a_curve_that_is_drawn(self):
        page = self.opened("line")
        self.answered_since(page, lambda: self.press(page, "Fill"))
        frames, nodes = FIELDS["line"][1:]
        value = self.forecast_at(page, 0, 5, 0, (frames, nodes))
        expected = self.asked("line", {"fields": np.full((1, 2, nodes, 1), value)}, "fields")
        for frame, node in ((1, 0), (2, 3), (5, 11)):
            self.assertAlmostEqual(self.forecast_at(page, frame, node, 0, (frames, nodes)),
                                   expected[0, frame, node, 0], delta=1e-5)
            self.assertEqual(self.readout(page)["frame"], frame)
        # A stroke changes the nodes that it passes, and no others.
        self.changing(page, "canvas.prediction", lambda: page.drag(
            "canvas.chart", [(0.5, 0.3), (0.6, 0.6), (0.7, 0.6)]))
        drawn = [self.forecast_at(page, 0, node, 0, (frames, nodes)) for node in range(nodes)]
        self.assertAlmostEqual(drawn[1], value, delta=1e-6)
        self.assertAlmostEqual(drawn[15], value, delta=1e-6)
        self.assertLess(drawn[9], drawn[7])
        self.assertLess(drawn[7], value)
        given = np.array(drawn).reshape(1, 1, nodes, 1).repeat(2, axis=1)
        expected = self.asked("line", {"fields": given}, "fields")
        self.assertAlmostEqual(self.forecast_at(page, 4, 9, 0, (frames, nodes)),
                               expected[0, 4, 9, 0], delta=1e-5)
        self.assertEqual(page.complaints, [])

    def test_forecasts_a_field_of_two_channels(self):
        page = self.opened("sheet")
        frames, columns, rows, channels = FIELDS["sheet"][1:]
        self.answered_since(page, lambda: self.press(page, "Fill"))
        high = self.forecast_at(page, 3, 3, 0, (rows, columns))
        # The second channel, with one node at its lowest value.
        self.answered_since(page, lambda: self.set(page, "select.layer", "1", "change"))
        self.answered_since(page, lambda: self.press(page, "Fill"))
        second = self.forecast_at(page, 3, 3, 0, (rows, columns))
        self.set(page, "[aria-label=brush]", 0.5)
        self.set(page, "[aria-label=value]", -10)
        self.answered_since(page, lambda: page.click(
            "canvas.paint", 9.5 / columns, 1.5 / rows))
        low = self.forecast_at(page, 1, 9, 0, (rows, columns))
        self.assertLess(low, second)
        # The first axis of space runs to the right, the second one up.
        given = np.full((1, 2, columns, rows, channels), high)
        given[..., 1] = second
        given[0, :, 9, rows - 2, 1] = low
        expected = self.asked("sheet", {"fields": given}, "fields")
        for row, col, frame in ((1, 9, 2), (1, 8, 3), (6, 2, 5)):
            self.assertAlmostEqual(self.forecast_at(page, row, col, frame, (rows, columns)),
                                   expected[0, frame, col, rows - 1 - row, 1], delta=1e-5)
        self.assertEqual(page.complaints, [])

    def test_reads_a_reconstruction(self):
        page = self.opened("bar")
        self.answered_since(page, lambda: self.set(page, "select.output", "1", "change"))
        self.set(page, "select.across", "1", "change")
        self.answered_since(page, lambda: self.set(page, "select.up", "0", "change"))
        self.hover(page, "canvas.map", 60.5 / 80, 20.5 / 80)
        said = self.readout(page)
        self.assertEqual((said["row"], said["col"]), (20, 60))
        self.assertRegex(page.run("document.querySelector('.readout').textContent"),
                         r"^t 1\.5.*, x 0\.7.*: q ")
        expected = self.asked("bar", {"x": np.array([1 - 20.5 / 80]),
                                      "t": np.array([2 * 60.5 / 80])}, "q")
        self.assertAlmostEqual(said["value"], expected[0], delta=1e-6)
        page.click("input[type=checkbox]")
        page.wait("/residual of the equation \\d/.test("
                  "document.querySelector('main').textContent)")
        self.assertEqual(page.complaints, [])

    def test_draws_a_field_and_reads_it(self):
        page = self.opened("rod")
        self.hover(page, "canvas.map", 60.5 / 80, 20.5 / 80)
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
        page = self.opened("rod")
        said = "document.querySelector('#check .verdict:not([hidden])')?.textContent"
        page.click("#check button")
        page.wait(said, 60)
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
                    page.wait("document.querySelector('h1').textContent === 'watched'")
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

    def test_fits_a_phone_in_light_and_dark(self):
        for n, name in enumerate(RUNS):
            dark = n % 2 == 0
            page = self.opened(name, width=360, height=740, touch=True, dark=dark)
            self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 360, name)
            style = page.run("(({backgroundColor, color}) => [backgroundColor, color])"
                             "(getComputedStyle(document.body))")
            brightness = [sum(map(int, re.findall(r"\d+", colour))) for colour in style]
            self.assertEqual(style[0], "rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
            self.assertEqual(brightness[0] < brightness[1], dark, style)
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
