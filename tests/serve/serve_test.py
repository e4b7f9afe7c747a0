#!/usr/bin/env python3
"""`propagator serve` from outside: a server in a process of its own, asked as
any client of the protocol asks. $PROPAGATOR is the program."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy as np
except ModuleNotFoundError:
    if "CI" in os.environ:
        raise
    print("NOT TESTED: there is no numpy")
    sys.exit(77)

sys.dont_write_bytecode = True
from client import Client, Server, infer_body  # noqa: E402

PROGRAM = os.environ["PROPAGATOR"]
TINY = os.environ["PROPAGATOR_CONFIGS"] + "/forecast/tiny.yaml"
LOAD = pathlib.Path(__file__).parents[2] / "scripts/serve-load"
KEY = "a-key-that-is-long-enough"


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def train(runs, name, *options):
    return [PROGRAM, "train", TINY, "--runs", str(runs), "--name", name,
            "--threads", "1", "--device", "cpu", *options]


def plates(cases, seed=0):
    draws = np.random.default_rng(seed)
    return {"fields": draws.random((cases, 3, 8, 8), dtype=np.float32),
            "alpha": draws.uniform(0.02, 0.09, cases).astype(np.float32)}


def fingerprint(folder):
    return {str(path): (path.stat().st_mtime_ns,
                        hashlib.sha256(path.read_bytes()).hexdigest())
            for path in sorted(folder.rglob("*")) if path.is_file()}


class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        subprocess.run(train(cls.folder, "tiny", "-s", "train.max_steps=12"),
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.tiny = cls.folder / "tiny"

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def serve(self, *arguments, **options):
        return Server(PROGRAM, self.tiny, "--threads", "1", *arguments, **options)

    def predicted(self, inputs):
        """What `propagator predict` says to the same numbers."""
        given, answers = self.folder / "in.npz", self.folder / "out.npz"
        np.savez(given, **inputs)
        said = run("predict", self.tiny, "-i", given, "-o", answers, "--force",
                   "--threads", "1")
        self.assertEqual(said.returncode, 0, said.stdout)
        return {name: values for name, values in np.load(answers).items()
                if name != "note"}

    def assert_refused(self, status, part, *arguments, environment=None):
        said = subprocess.run(
            [PROGRAM, "serve", *map(str, arguments)], text=True, timeout=60,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
        self.assertEqual(said.returncode, status, said.stdout)
        self.assertIn(part, said.stdout)

    def test_answers_have_the_bits_of_predict(self):
        inputs = plates(5)
        expected = self.predicted(inputs)
        before = fingerprint(self.tiny)
        with self.serve("--batch", 1) as server:
            client = Client(server.port)
            for binary in (True, False):
                status, outputs, _ = client.infer("tiny", inputs, binary)
                self.assertEqual(status, 200, outputs)
                self.assertEqual(outputs.keys(), expected.keys())
                for name, values in outputs.items():
                    self.assertEqual(values.tobytes(), expected[name].tobytes(), name)
            self.assertEqual(server.stop()[0], 0)
        self.assertEqual(fingerprint(self.tiny), before)

    def test_requests_of_many_are_computed_together(self):
        all_inputs = [plates(1 + n % 3, n) for n in range(48)]
        with self.serve() as server:
            def ask(inputs):
                return Client(server.port).infer("tiny", inputs)
            alone = [ask(inputs)[1] for inputs in all_inputs]
            with concurrent.futures.ThreadPoolExecutor(24) as pool:
                answers = list(pool.map(ask, all_inputs))
            metrics = Client(server.port).ask("GET", "/metrics")[2].decode()
        for expected, (status, outputs, _) in zip(alone, answers):
            self.assertEqual(status, 200, outputs)
            np.testing.assert_allclose(
                outputs["fields"], expected["fields"], rtol=2e-5, atol=2e-6)
        batches = next(float(line.split()[-1]) for line in metrics.splitlines()
                       if line.startswith("propagator_batches_total{"))
        self.assertLess(batches, 2 * len(all_inputs))

    def test_says_what_it_has(self):
        with self.serve(f"fine={self.tiny}") as server:
            client = Client(server.port)
            self.assertEqual(client.get("/v2")[1]["name"], "propagator")
            for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/fine/ready"):
                self.assertEqual(client.get(path)[0], 200)
            model = client.get("/v2/models/tiny")[1]
            self.assertEqual([port["name"] for port in model["inputs"]], ["fields", "alpha"])
            version = model["versions"][0]
            self.assertEqual(version, "step-0000000012")
            self.assertEqual(client.get(f"/v2/models/tiny/versions/{version}/ready")[0], 200)
            self.assertEqual(client.get("/v2/models/other")[0], 404)

    def test_guards_its_answers(self):
        inputs = plates(2)
        with self.serve() as server:
            client = Client(server.port)
            said = client.infer("tiny", inputs, parameters={"guard": True})[2]
            self.assertIs(said["guard_inside"], True)
            self.assertGreater(said["guard_residual"], 0)
            inputs["fields"] += 3
            said = client.infer("tiny", inputs, parameters={"guard": True})[2]
            self.assertIs(said["guard_inside"], False)
            self.assertIn("fields from 3", said["guard_outside"])

    def test_says_what_is_wrong_with_a_request(self):
        with self.serve("--max-body", 65536) as server:
            client = Client(server.port)

            def error(change, status=400):
                inputs = plates(1)
                change(inputs)
                got, said, _ = client.infer("tiny", inputs)
                self.assertEqual(got, status, said)
                return said

            self.assertIn("'alpha'", error(lambda i: i.pop("alpha")))
            self.assertIn("'beta'", error(lambda i: i.update(beta=i["alpha"])))
            self.assertIn("(1, 2, 8, 8)",
                          error(lambda i: i.update(fields=i["fields"][:, :2].copy())))
            self.assertIn("positive", error(lambda i: i.update(alpha=-i["alpha"])))
            self.assertIn("finite", error(lambda i: i.update(fields=i["fields"] * np.nan)))
            body, headers = infer_body(plates(1))
            self.assertEqual(client.ask("POST", "/v2/models/tiny/infer", body[:-1], headers)[0], 400)
            self.assertEqual(client.ask("POST", "/v2/models/tiny/infer", body,
                                        {**headers, "Host": "evil.example"})[0], 421)
            client = Client(server.port)
            self.assertEqual(client.infer("tiny", plates(200))[0], 413)
            client = Client(server.port)
            self.assertEqual(client.infer("tiny", plates(1))[0], 200)

    def test_wants_its_key(self):
        file = self.folder / "key"
        file.write_text(KEY + "\n")
        with self.serve("--address", "0.0.0.0", "--key-file", file) as server:
            self.assertEqual(Client(server.port).get("/v2")[0], 401)
            self.assertEqual(Client(server.port, "another-key-of-its-length").get("/v2")[0], 401)
            self.assertEqual(Client(server.port, KEY).get("/v2")[0], 200)
            self.assertEqual(Client(server.port).get("/v2/health/live")[0], 200)
        with self.serve(environment={**os.environ, "PROPAGATOR_API_KEY": KEY}) as server:
            self.assertEqual(Client(server.port).get("/v2")[0], 401)

    def test_does_not_start_with_what_cannot_be(self):
        self.assert_refused(2, "no API key", self.tiny, "--address", "0.0.0.0")
        self.assert_refused(2, "expected an API key of 16", self.tiny,
                            environment={**os.environ, "PROPAGATOR_API_KEY": "short"})
        self.assert_refused(1, "no run at", self.folder / "none")
        self.assert_refused(2, "two 'tiny'", self.tiny, self.tiny)
        self.assert_refused(2, "65536", self.tiny, "--port", "65536")
        self.assert_refused(2, "--batch", self.tiny, "--batch", "0")
        self.assert_refused(2, "train.batch", self.tiny, "-s", "train.batch=3")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.assert_refused(2, "already in use", self.tiny, "--port",
                                taken.getsockname()[1])

    def test_serves_a_run_that_is_being_trained_as_far_as_it_is(self):
        busy = self.folder / "busy"
        with subprocess.Popen(
                train(self.folder, "busy", "-s", "train.max_steps=1000000",
                      "-s", "train.checkpoint_every=20"),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as training:
            try:
                while not list(busy.glob("checkpoints/step-*")):
                    self.assertIsNone(training.poll())
                    time.sleep(0.05)
                with Server(PROGRAM, busy, "--threads", "1") as server:
                    client = Client(server.port)
                    self.assertEqual(client.infer("busy", plates(1))[0], 200)
                    self.assertIsNone(training.poll())
            finally:
                training.kill()

    def test_answers_what_has_come_before_it_stops(self):
        inputs = plates(64)
        body, headers = infer_body(inputs)
        with self.serve("--batch", 1) as server:
            clients = [Client(server.port) for _ in range(12)]
            for client in clients:
                client.connection.request("POST", "/v2/models/tiny/infer", body, headers)
            while '"tiny"' not in Client(server.port).ask("GET", "/metrics")[2].decode():
                pass
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                stopped = pool.submit(server.stop)
                answers = [client.connection.getresponse() for client in clients]
                self.assertEqual([answer.status for answer in answers], [200] * len(clients))
                for answer in answers:
                    self.assertGreater(len(answer.read()), 64 * 16 * 64 * 4)
                self.assertEqual(stopped.result()[0], 0)

    def test_goes_on_among_many_who_ask_improperly(self):
        said = subprocess.run(
            [sys.executable, LOAD, self.tiny, "--requests", "1500", "--connections", "100",
             "--alone", "80"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(said.returncode, 0, said.stdout)
        result = json.loads(said.stdout)
        self.assertEqual(result["among_others"]["refused"], 0)
        self.assertGreaterEqual(sum(result["others"].values()), 1500)

    def test_tells_what_a_request_costs(self):
        out = self.folder / "costs/serve-cost.json"
        said = subprocess.run(
            [os.environ["SERVE_COST"], self.tiny, "100", "--draft", "--out", out],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(said.returncode, 0, said.stdout)
        result = json.loads(out.read_text())
        self.assertEqual((result["name"], result["threads"], result["requests"],
                          result["draft"]), ("serve-cost", 1, 100, True))
        self.assertIn("serve_cost", result["command"])
        self.assertGreater(result["model_us"], 0)
        self.assertGreater(result["requests_per_second_of_clients"], 0)

    def test_sends_away_whom_it_cannot_serve(self):
        body, headers = infer_body(plates(200))
        with self.serve("--batch", 1, "--queue", 1) as server:
            clients = [Client(server.port) for _ in range(16)]
            for client in clients:
                client.connection.request("POST", "/v2/models/tiny/infer", body, headers)
            answers = [client.connection.getresponse() for client in clients]
            away = [answer for answer in answers if answer.status == 503]
            self.assertTrue(away)
            self.assertTrue(any(answer.status == 200 for answer in answers))
            for answer in away:
                self.assertGreaterEqual(int(answer.headers["Retry-After"]), 1)
                self.assertIn("waiting", json.loads(answer.read())["error"])


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")
