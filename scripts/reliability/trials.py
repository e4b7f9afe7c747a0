"""What the crash and the fault tests share: small trainings, and what of them
must not differ by a bit."""
import contextlib
import hashlib
import json
import os
import pathlib
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = os.environ.get("PROPAGATOR", str(ROOT / "build/bin/propagator"))

# Small, with all that a checkpoint must hold: scales taken from the data, Adam
# and then L-BFGS on resampled points, events drawn anew; and, of `solve` as it
# is by default, a matrix of Broyden's method and slabs of time, one network
# after the other. Checkpoints so often that most moments are near one, one
# thread so that two fit on two cores.
SETTINGS = {
    "forecast": ["train", str(ROOT / "configs/forecast/tiny.yaml"),
                 "train.max_steps=200", "train.validate_every=20",
                 "model.width=64", "model.heads=2",
                 "model.predicts=scaled_change", "model.scaling=case"],
    "solve": ["solve", str(ROOT / "problems/heat.yaml"), "model.name=pinn",
              "model.width=16", "points.per_axis=8",
              "points.validation_per_axis=5", "points.resample_every=25",
              "eval.per_axis=9", "optimizer.adam_steps=100",
              "lbfgs.iterations=2", "lbfgs.evaluations=4",
              "train.max_steps=200", "train.validate_every=20"],
    # No budget of time, in which a resumed run would take other steps.
    "precise": ["solve", str(ROOT / "problems/heat.yaml"), "recipe=precise",
                "model.width=8", "model.layers=2", "points.per_axis=9",
                "points.validation_per_axis=5", "eval.per_axis=9",
                "optimizer.adam_steps=40", "broyden.iterations=3",
                "slabs.first=2", "train.budget=0", "train.max_steps=200",
                "train.validate_every=10"],
    "locate": ["train", str(ROOT / "configs/locate/corners-jitter.yaml"),
               "data.events=256", "data.validation=64",
               "data.resample_every=20", "model.width=16", "model.layers=1",
               "model.feed_forward=16", "eval.events=64", "eval.classical=16",
               "train.batch=32", "train.max_steps=200",
               "train.validate_every=20"],
}
EVERYWHERE = ["train.checkpoint_every=2", "train.log_every=5", "report.page=no"]


def arguments(task, run, device="cpu", more=()):
    """Of the program, to train a new run."""
    verb, config, *settings = SETTINGS[task]
    options = [word for setting in (*settings, *EVERYWHERE, *more)
               for word in ("-s", setting)]
    return [verb, config, "--runs", str(run.parent), "--name", run.name,
            "--device", device, "--threads", "1", *options]


class Session:
    """The program at work, with all processes that it may start."""

    def __init__(self, words, output, environment=None):
        self.output = output
        with open(output, "wb") as file:
            self.process = subprocess.Popen(
                [PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, **(environment or {})})

    def ended(self):
        return self.process.poll() is not None

    def kill(self):
        """Whether it was still there to be killed."""
        if not self.ended():
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait() == -signal.SIGKILL

    @contextlib.contextmanager
    def paused(self):
        """It keeps what it holds, and ends no sooner than what is done here."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.process.pid, signal.SIGCONT)

    def wait(self):
        return self.process.wait()

    def text(self):
        return self.output.read_text(errors="replace")


def checkpoints(run):
    """In order."""
    return sorted((run / "checkpoints").glob("step-*"))


def newest_step(run):
    return max((int(path.name[5:]) for path in checkpoints(run)), default=0)


def untimed(value):
    """Numbers of a JSON value, less those that say how long something took."""
    if isinstance(value, dict):
        if "second" in str(value.get("name")):
            return None
        return {key: untimed(part) for key, part in value.items()
                if "second" not in key}
    if isinstance(value, list):
        return [untimed(part) for part in value]
    return None if isinstance(value, str) else value


def fingerprint(run):
    """All that a disturbed training must share with a calm one: weights, best
    weights, moments, position, result and curves."""
    last = checkpoints(run)[-1]
    seen = {name: hashlib.sha256((last / name).read_bytes()).hexdigest()
            for name in ("model.safetensors", "best.safetensors",
                         "optimizer.safetensors")}
    for file in (last / "state.json", run / "result.json"):
        seen[file.name] = untimed(json.loads(file.read_text()))
    lines = (run / "metrics.jsonl").read_text().splitlines()
    seen["metrics.jsonl"] = [untimed(json.loads(line)) for line in lines]
    return seen


def differences(run, calm):
    """Names of what differs from the calm run's fingerprint."""
    seen = fingerprint(run)
    return [name for name in calm if seen[name] != calm[name]]


def provenance(run):
    """Of a finished run: the code and the machine."""
    result = json.loads((run / "result.json").read_text())
    return {key: result[key] for key in ("code", "machine", "libtorch")}
