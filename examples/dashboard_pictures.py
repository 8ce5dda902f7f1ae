"""Draw docs/images/dashboard.png and explorer.png: pages of a service that runs. Run by ``make picture``."""

from __future__ import annotations

import io
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from playwright.sync_api import sync_playwright

SERVE = (str(Path(sys.executable).with_name("sfumato")), "serve", "--data")
#: Dataset -> ε of its budget, and ε of each of its releases.
BUDGETS = {"admissions": (4.0, (3.0,)), "ward-7": (8.0, (0.5, 0.5, 1.0, 1.0)), "archive": (6.0, ())}
#: Picture -> page, width and height.
PAGES = {"dashboard": ("/ui", 1200, 800), "explorer": ("/ui/explorer?epsilon=5&distrust=3", 860, 980)}


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str]]:
    """A service with one tenant: its address, and the token of the owner."""
    made = subprocess.run(
        [*SERVE, folder, "tenant", "clinic", "--json"], check=True, capture_output=True, text=True
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = subprocess.Popen([*SERVE, folder, "--port", str(port)], stderr=subprocess.DEVNULL)
    try:
        base = f"http://127.0.0.1:{port}"
        while run.poll() is None and not _ready(base):
            time.sleep(0.2)
        yield base, json.loads(made.stdout)["token"]
    finally:
        run.terminate()
        run.wait()


def _ready(base: str) -> bool:
    try:
        return httpx.get(f"{base}/readyz").is_success
    except httpx.TransportError:
        return False


def fill(base: str, token: str) -> None:
    """Open the budgets and spend from them, by releases of random numbers."""
    file = io.BytesIO()
    np.savez(file, X=np.random.default_rng(0).normal(size=(200, 4)))
    with httpx.Client(base_url=f"{base}/v1", headers={"Authorization": f"Bearer {token}"}) as client:
        for name, (budget, releases) in BUDGETS.items():
            new = {"dataset": name, "epsilon": budget, "delta": 1e-6}
            client.post("/budgets", json=new).raise_for_status()
            for epsilon in releases:
                asked = {"parameters": {"epsilon": epsilon, "delta": 1e-7, "clip": 1.0}}
                query = {"name": "visits.npz", "asked": json.dumps(asked)}
                told = client.post(f"/datasets/{name}/protect", params=query, content=file.getvalue())
                told.raise_for_status()


def main(pictures: Path) -> None:
    """Write the first screen of each page to a file of its name in ``pictures``."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder)) as (base, token),
        sync_playwright() as driver,
    ):
        fill(base, token)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{base}/ui")
        page.locator("[name=key]").fill(token)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{base}/ui/")
        for name, (path, width, height) in PAGES.items():
            page.set_viewport_size({"width": width, "height": height})
            page.goto(base + path, wait_until="networkidle")
            page.screenshot(path=pictures / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
