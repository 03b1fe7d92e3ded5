"""What tests of several rooms need: a browser, chapters without a kernel, tiny models."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy and PyTorch: the tests' processes share the cores

import gc
import shutil

import in_process
import pytest
from hypothesis import settings
from playwright.sync_api import sync_playwright

from companion.execute import run as chapters
from rbp.errors import RbpError

#: the first is the same without windows: it opens a page with a third of the processor time
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

gc.disable()  # until all is imported
settings.register_profile("full", max_examples=200, deadline=None)  # for the slow set
settings.register_profile("loop", max_examples=10, deadline=None)
settings.register_profile("few", max_examples=4, deadline=None)  # of what takes a second each
settings.load_profile("loop")  # unless --hypothesis-profile names another

FLAGS = ["--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"]


@pytest.hookimpl(tryfirst=True)  # before any are left out by their marks
def pytest_collection_modifyitems(items):
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("long")


def pytest_collection_finish():
    """What is imported stays: no collection need look through it. Later ones are as rare as in a chapter's kernel."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)
    gc.enable()


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium. Without one the tests are skipped, but never in CI."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        message = "no Chromium on the PATH (Debian: apt-get install chromium-headless-shell)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def without_kernel(monkeypatch):
    """`execute` runs a chapter's cells in this process."""
    monkeypatch.setattr(chapters, "_run", in_process.run)


@pytest.fixture
def in_this_process(monkeypatch):
    """`run_tasks` does its work here: each of its processes would import torch anew."""
    import torch  # late: most tests need none

    def run(jobs, at_once, show):
        failed = {}
        for job in jobs:
            try:
                job.work(lambda line, name=job.name: show(name, line), *job.arguments)
            except RbpError as error:
                failed[job.name] = error
        return failed

    for module in ("rbp.processes", "rbp.extract.extraction"):
        monkeypatch.setattr(f"{module}.run_tasks", run)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tokenizer():
    from tiny import make_tokenizer  # late: most tests need no models

    return make_tokenizer()


@pytest.fixture(scope="session")
def saved(tmp_path_factory, tokenizer):
    """saved(kind): the folder of a tiny random model of that architecture, made once; OPT and Llama open each text."""
    from tiny import make_tokenizer, save_model

    root = tmp_path_factory.mktemp("models")

    def save(kind):
        folder = root / kind
        if not folder.exists():
            save_model(folder, kind, make_tokenizer("<|end|> $A") if kind in ("opt", "llama") else tokenizer)
        return folder

    return save
