"""A headless Chromium, driven through chromedriver's plain HTTP protocol; nothing to install but the two programs."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
REQUIRED = bool(os.environ.get("PROBSYM_BROWSER"))
"""Whether a missing browser is a failure, as in `.ci/run`, rather than a reason to skip."""
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
TAB = "\ue004"


class Browser:
    """One window: open pages, run scripts in them, press keys, and read what they logged and asked for."""

    def __init__(self) -> None:
        assert CHROMIUM
        assert DRIVER
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.driver = subprocess.Popen(
            [DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.driver.stdout is not None
        started = next(match for line in self.driver.stdout if (match := re.search(r"on port (\d+)\.", line)))
        self.address = f"http://127.0.0.1:{started.group(1)}/session"
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={self.profile.name}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        session = self._ask("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self.address += f"/{session['sessionId']}"

    def close(self) -> None:
        try:
            self._ask("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(10)
            if self.driver.stdout is not None:
                self.driver.stdout.close()
            self.profile.cleanup()

    def open(self, page: Path | str, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """Open a file or an address at a width and in a colour scheme; what was logged before is forgotten."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.tell("Emulation.setDeviceMetricsOverride", **size)
        self.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._ask("POST", "/url", {"url": "about:blank"})
        self.complaints(), self.requests()
        self._ask("POST", "/url", {"url": page if isinstance(page, str) else page.resolve().as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def press(self, key: str) -> None:
        strokes = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": strokes}]})

    def complaints(self) -> list[str]:
        """Errors and warnings of the console since the last time."""
        entries = self._ask("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """Every address that was asked for since the last time, but for data: and about:."""
        messages = [
            json.loads(entry["message"])["message"] for entry in self._ask("POST", "/se/log", {"type": "performance"})
        ]
        asked = [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]
        return [address for address in asked if not address.startswith(("data:", "about:"))]

    def tell(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def picture(self, path: Path, whole: bool = False) -> None:
        """What the window shows, or the whole page, as PNG."""
        answer = self.tell("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _ask(self, method: str, place: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.address + place, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]
