"""A browser without a window, driven through its own protocol: JSON messages
over two pipes, with Python's standard library alone."""

import base64
import fcntl
import json
import os
import subprocess
import tempfile
import time


class Browser:
    """Chromium on one page."""

    def __init__(self, program, url, width=1200, height=900, dark=False, touch=False):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.write_end, self.read_end = self.start(program)
        self.heard, self.number, self.session = b"", 0, None
        self.complaints = []  # errors of the page's script, requests and policy
        pages = [target for target in self.call("Target.getTargets")["targetInfos"]
                 if target["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)

    def start(self, program):
        """The ends of its pipes; it reads from its file 3 and writes to its 4."""
        ends = [*os.pipe(), *os.pipe()]
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (ends[0], ends[3])]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{theirs[0]} 4>&{theirs[1]}', program,
             "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for end in (ends[0], ends[3], *theirs):
            os.close(end)
        return ends[1], ends[2]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        self.profile.cleanup()

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next_message()
            if answer.get("id") != self.number:
                self.note(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return answer["result"]

    def next_message(self):
        while b"\0" not in self.heard:
            came = os.read(self.read_end, 1 << 16)
            if not came:
                raise RuntimeError("the browser has ended")
            self.heard += came
        message, self.heard = self.heard.split(b"\0", 1)
        return json.loads(message)

    def note(self, event):
        entry = event.get("params", {}).get("entry", {})
        if event.get("method") == "Log.entryAdded" and entry["level"] == "error":
            self.complaints.append(entry["text"])
        if event.get("method") == "Runtime.exceptionThrown":
            details = event["params"]["exceptionDetails"]
            self.complaints.append(details.get("exception", details).get("description", ""))

    def run(self, script):
        """What an expression of JavaScript is, a promise awaited."""
        said = self.call("Runtime.evaluate", expression=script, awaitPromise=True,
                         returnByValue=True)
        if "exceptionDetails" in said:
            raise RuntimeError(said["exceptionDetails"]["exception"]["description"])
        return said["result"].get("value")

    def wait(self, script, seconds=30):
        """Until an expression is true."""
        ends = time.monotonic() + seconds
        while not self.run(f"Boolean({script})"):
            if time.monotonic() > ends:
                raise RuntimeError(f"not within {seconds} s: {script}; "
                                   f"complaints: {self.complaints}")
            time.sleep(0.05)

    def place(self, selector, across=0.5, down=0.5):
        """Where a share of an element is, once it is in sight."""
        left, top, width, height = self.run(f"""(() => {{
            const node = document.querySelector({json.dumps(selector)});
            node.scrollIntoView({{block: 'center', behavior: 'instant'}});
            const box = node.getBoundingClientRect();
            return [box.left, box.top, box.width, box.height];
        }})()""")
        return {"x": left + across * width, "y": top + down * height}

    def click(self, selector, across=0.5, down=0.5):
        self.drag(selector, [(across, down)])

    def drag(self, selector, places):
        """With the left button held, from each place to the next."""
        held = {"button": "left", "buttons": 1, "clickCount": 1}
        for n, (across, down) in enumerate(places):
            kind = "mousePressed" if n == 0 else "mouseMoved"
            at = self.place(selector, across, down)
            self.call("Input.dispatchMouseEvent", type=kind, **at, **held)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **at, button="left",
                  clickCount=1)

    def touch(self, selector, places):
        """With a finger, from each place to the next."""
        for n, (across, down) in enumerate(places):
            kind = "touchStart" if n == 0 else "touchMove"
            self.call("Input.dispatchTouchEvent", type=kind,
                      touchPoints=[self.place(selector, across, down)])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def picture(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                         clip={**size, "x": 0, "y": 0, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
