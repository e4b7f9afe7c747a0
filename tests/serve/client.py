"""A client of the Open Inference Protocol, version 2, as others write them: by
what the protocol says, with Python's standard library and numpy."""

import http.client
import json
import pathlib
import re
import signal
import subprocess

import numpy as np

DATATYPES = {"FP32": np.float32, "FP64": np.float64, "INT64": np.int64}
NAMES = {np.dtype(kind): name for name, kind in DATATYPES.items()}
LENGTH = "Inference-Header-Content-Length"


class Server:
    """`propagator serve` in a process of its own, on a port that is free."""

    def __init__(self, program, *arguments, environment=None):
        self.process = subprocess.Popen(
            [program, "serve", "--port", "0", *map(str, arguments)], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        self.url = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://(.*):(\d+)", self.url)
        if not found:
            raise RuntimeError(self.process.communicate()[1])
        self.host, self.port = found[1], int(found[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def stop(self):
        """Asks it to end; its exit code, and what it said on stderr."""
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said

    def resident_bytes(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/statm").read_text()
        return int(text.split()[1]) * 4096


class Client:
    def __init__(self, port, key=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, body) of a request."""
        self.connection.request(method, path, body, {**self.headers, **(headers or {})})
        response = self.connection.getresponse()
        return response.status, response.headers, response.read()

    def get(self, path):
        status, _, body = self.ask("GET", path)
        return status, json.loads(body)

    def infer(self, model, inputs, binary=True, outputs=None, parameters=None):
        """(status, outputs or the error, parameters of the response)"""
        body, headers = infer_body(inputs, binary, outputs, parameters)
        status, said, answer = self.ask("POST", f"/v2/models/{model}/infer", body, headers)
        if status != 200:
            return status, json.loads(answer)["error"], {}
        return status, *read_answer(said, answer)


def infer_body(inputs, binary=True, outputs=None, parameters=None):
    request = {"inputs": [], "parameters": {**(parameters or {})}}
    if outputs is not None:
        request["outputs"] = [{"name": name} for name in outputs]
    if binary:
        request["parameters"]["binary_data_output"] = True
    tail = b""
    for name, values in inputs.items():
        one = {"name": name, "shape": list(values.shape), "datatype": NAMES[values.dtype]}
        if binary:
            one["parameters"] = {"binary_data_size": values.nbytes}
            tail += values.tobytes()
        else:
            one["data"] = values.tolist()
        request["inputs"].append(one)
    text = json.dumps(request).encode()
    return text + tail, {LENGTH: str(len(text))} if binary else {}


def read_answer(headers, body):
    """Outputs by name, and the parameters."""
    length = int(headers.get(LENGTH, len(body)))
    head, tail = json.loads(body[:length]), body[length:]
    outputs = {}
    for output in head["outputs"]:
        kind = DATATYPES[output["datatype"]]
        if "data" in output:
            values = np.array(output["data"], dtype=kind)
        else:
            size = output["parameters"]["binary_data_size"]
            values, tail = np.frombuffer(tail[:size], dtype=kind), tail[size:]
        outputs[output["name"]] = values.reshape(output["shape"])
    assert not tail
    return outputs, head.get("parameters", {})
