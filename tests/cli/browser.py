"""A page in headless Chromium, driven through its debugging pipe: evaluate, click, press keys, take a picture.

Messages are JSON with a zero byte behind each; the browser reads them from descriptor 3 and writes to descriptor 4.
"""

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import zlib

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def program():
    """The browser of this machine, or None. UNISONO_CHROMIUM names another."""
    return next(filter(None, map(shutil.which, (os.environ.get("UNISONO_CHROMIUM", ""), *PROGRAMS))), None)


def data_of(html):
    """What a page to explore shows, from its text."""
    packed = re.search(r'<script id="data" type="text/plain">([^<]*)</script>', html).group(1)
    return json.loads(zlib.decompress(base64.b64decode(packed)))


class Page:
    """A file, opened. `requests` holds every address that the page asked for."""

    def __init__(self, file, dark=False, size=(1500, 1000)):
        self.profile = tempfile.mkdtemp(prefix="unisono_browser_")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def hand_over():  # as descriptors 3 and 4, whatever numbers they have here
            read, write = os.dup(to_browser), os.dup(from_browser)
            high = [os.dup2(end, number) for end, number in ((read, 63), (write, 64))]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile}", f"--window-size={size[0]},{size[1]}", "about:blank"],
            preexec_fn=hand_over, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.rest, self.session, self.requests, self.faults = 0, b"", None, [], []
        target = self.first_page()
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        began = time.monotonic()
        self.call("Page.navigate", url=pathlib.Path(file).resolve().as_uri())
        self.wait("document.body?.dataset.ready === 'true'")
        self.seconds = time.monotonic() - began

    def first_page(self, seconds=30):
        """The tab that the browser opens as it starts."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if found := [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]:
                return found[0]
            time.sleep(0.05)
        raise RuntimeError(f"the browser has no page after {seconds} s")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            if answer.get("method") == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])
            if answer.get("method") == "Runtime.exceptionThrown":
                self.faults.append(answer["params"]["exceptionDetails"])

    def receive(self):
        while b"\0" not in self.rest:
            more = os.read(self.read_end, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, condition, seconds=60):
        until = time.monotonic() + seconds
        while not self.evaluate(condition):
            if time.monotonic() > until:
                raise RuntimeError(f"not within {seconds} s: {condition}; {self.faults}")
            time.sleep(0.02)

    def click(self, selector, index=0):
        """A press and release of the mouse in the middle of an element that is in sight."""
        x, y = self.evaluate(
            f"(() => {{ const e = document.querySelectorAll({json.dumps(selector)})[{index}]; e.scrollIntoViewIfNeeded();"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key):
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, **(text if kind == "keyDown" else {}))

    def texts(self, selector):
        return self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)")

    def picture(self, file):
        pathlib.Path(file).write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, BrokenPipeError):
            pass
        self.process.wait(timeout=30)
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.profile, ignore_errors=True)
