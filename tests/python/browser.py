"""A headless browser: pages as they are after their scripts have run."""

from __future__ import annotations

import contextlib
import html.parser
import http.server
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from eventually import HANG_LIMIT_S

_NAMES = ("chromium-headless-shell", "chromium")
# Scripts run until nothing is left to do, but at most for this time of their own clock.
_SCRIPT_TIME_MS = 20_000


def executable() -> str:
    """Skips the test where no browser is installed."""
    for name in _NAMES:
        found = shutil.which(name)
        if found:
            return found
    pytest.skip("no chromium-headless-shell (./dev test installs it: dependencies/debian-test.txt)")


def dom(url: str, own_clock: bool = True) -> str:
    """The page as HTML. own_clock: timers need not be waited for. Without it the page is taken when
    it has loaded, which a slow image can delay (served())."""
    clock = [f"--virtual-time-budget={_SCRIPT_TIME_MS}"] if own_clock else []
    with tempfile.TemporaryDirectory(prefix="hpu-browser-") as profile:
        done = subprocess.run(
            [
                executable(),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                f"--user-data-dir={profile}",
                "--window-size=1240,1000",
                *clock,
                "--enable-logging=stderr",
                "--dump-dom",
                url,
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    errors = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not errors, errors
    return done.stdout


class Page(html.parser.HTMLParser):
    """Elements of a page with their attributes and the text inside them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self._open: list[tuple[str, dict[str, str], list[str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = (tag, {name: value or "" for name, value in attrs}, [])
        self.elements.append(element)
        self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        while self._open:
            if self._open.pop()[0] == tag:
                break

    def handle_data(self, data: str) -> None:
        for _, _, text in self._open:
            text.append(data)

    def texts(self, tag: str = "", **attributes: str) -> list[str]:
        """The texts of elements with that tag and those attributes; `class_` is one class of
        several."""
        return [
            "".join(text)
            for name, has, text in self.elements
            if (not tag or name == tag) and _matches(has, attributes)
        ]

    def figure(self, name: str) -> str:
        (text,) = self.texts(**{"data-figure": name})
        return text


def _matches(has: dict[str, str], wanted: dict[str, str]) -> bool:
    return all(
        value in has.get("class", "").split() if name == "class_" else has.get(name) == value
        for name, value in wanted.items()
    )


@contextlib.contextmanager
def served(
    files: dict[str, bytes], folder: Path, headers: dict[str, str], waits: dict[str, str]
) -> Iterator[str]:
    """The address of a server for `files` by path, and then for the content of the folder. A path
    in `waits` is answered, with nothing, when the path that it waits for is asked for."""
    asked = {path: threading.Event() for path in waits.values()}

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type]

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path in asked:
                asked[path].set()
            if path in waits:
                asked[waits[path]].wait(HANG_LIMIT_S)
            content = b"" if path in {*waits, *asked} else files.get(path)
            if content is None:
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def end_headers(self) -> None:
            for name, value in headers.items():
                self.send_header(name, value)
            super().end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
