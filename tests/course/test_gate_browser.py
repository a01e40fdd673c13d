"""Gate: in a real browser, JupyterLab opens a chapter, runs it, and its widget moves the picture.

Needs Chromium on the PATH; playwright's own download is not used.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from minivllm.course.build import as_shipped, read_notebook_source
from minivllm.course.stubs import ROOT

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
TOKEN = "of-this-test"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 60_000  # milliseconds that a wait may take

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome on the PATH")

# A chapter in small: what the gate needs of one, without a model.
SAMPLE = """\
# %% [markdown]
# # 90 · Sample

# %%
from matplotlib.figure import Figure

from minivllm.course.notebook import check, explore


def draw(step):
    figure = Figure(figsize=(4, 2))
    figure.subplots().bar(range(5), [step, 1, 2, 3, 4])
    return figure


explore(draw, alt="Five bars: the first is as high as the step says.", step=range(5))

# %%
check("ch00.blocks_needed")
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """The address of a running JupyterLab, and the folder that it shows."""
    root = tmp_path_factory.mktemp("lab")
    notebooks = root / "notebooks"
    notebooks.mkdir()
    environment = {**os.environ, **as_shipped(root), "PYTHONPATH": str(ROOT)}
    del environment["MINIVLLM_STATIC"]
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        environment[name] = str(root / name)
    announcements = "@jupyterlab/apputils-extension:announcements"
    subprocess.run(
        [sys.executable, "-m", "jupyter", "labextension", "disable", "--level=user", announcements],
        env=environment,
        check=False,
        capture_output=True,
    )
    port = free_port()
    options = [
        "--no-browser",
        "--allow-root",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.root_dir={notebooks}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    command = [sys.executable, "-m", "jupyterlab", *options]
    with (root / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_up(f"{address}/api/status?token={TOKEN}", server)
        yield address, notebooks
    finally:
        server.send_signal(signal.SIGINT)
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()


def wait_until_up(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert server.poll() is None, "JupyterLab has ended"
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=2)
            return
        time.sleep(0.2)
    raise AssertionError("JupyterLab does not answer")


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser.new_page(viewport={"width": 1300, "height": 1500})
        browser.close()


def open_and_run(page: Any, address: str, name: str) -> list[str]:
    """Run every cell; gives the errors of the page."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{address}/lab/tree/{name}?token={TOKEN}&reset")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=PATIENCE)
    # A run that is asked for before the kernel is there is dropped without a word.
    page.get_by_text("| Idle").wait_for(timeout=PATIENCE)
    page.get_by_role("menuitem", name="Run", exact=True).first.click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    return errors


def move_the_widget(page: Any) -> str:
    """Move the first control twice; gives the words of the picture that follows it."""
    control = page.locator(".widget-hslider .noUi-handle, .widget-dropdown select").first
    control.wait_for(timeout=PATIENCE)
    is_slider = control.evaluate("node => node.tagName !== 'SELECT'")
    sources = []
    for option in (1, 0):
        if is_slider:
            control.focus()
            page.keyboard.press("ArrowRight")
        else:
            control.select_option(index=option)
        page.wait_for_function(
            """before => {
                const image = document.querySelector('.widget-html img');
                return image && image.src !== before;
            }""",
            arg=sources[-1] if sources else "",
            timeout=PATIENCE,
        )
        sources.append(page.locator(".widget-html img").first.get_attribute("src"))
    assert sources[0] != sources[1]
    return str(page.locator(".widget-html img").first.get_attribute("alt"))


def test_a_widget_moves_its_picture_and_a_check_cell_shows_its_report(page, lab, tmp_path):
    address, notebooks = lab
    source = tmp_path / "sample.py"
    source.write_text(SAMPLE)
    nbformat.write(read_notebook_source(source), notebooks / "sample.ipynb")
    errors = open_and_run(page, address, "sample.ipynb")
    assert "Five bars" in move_the_widget(page)
    page.get_by_text("NOT STARTED").first.wait_for(timeout=PATIENCE)
    page.locator(".jp-RenderedImage img").first.wait_for(timeout=PATIENCE)
    assert errors == []


CHAPTERS = [
    path
    for path in sorted((ROOT / "notebooks" / "source").glob("*.py"))
    if "explore(" in path.read_text()
]


@pytest.mark.slow
@pytest.mark.skipif(not CHAPTERS, reason="no chapter has a widget yet")
def test_a_chapter_runs_and_its_widget_moves_the_picture(page, lab):
    address, notebooks = lab
    name = f"{CHAPTERS[0].stem}.ipynb"
    shutil.copy(ROOT / "notebooks" / name, notebooks / name)
    errors = open_and_run(page, address, name)
    assert len(move_the_widget(page)) > 40
    assert errors == []
