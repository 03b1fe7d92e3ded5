"""A figure within a page looks as Matplotlib drew it, in fewer bytes."""

import io
from contextlib import closing

import numpy as np
from matplotlib.axes import Axes
from PIL import Image
from playwright.sync_api import Browser

from companion import svg
from companion.plots import single_panel
from rbp.figures.style import log_axis, neg_log_rbp_label


def _seen(browser: Browser, drawing: str) -> np.ndarray:
    """What a reader sees of it: shades of grey by pixel."""
    style = (
        "* { margin: 0; color: #202124; --rbp-grid: #d9dbde } svg { width: 795px !important; height: auto !important }"
    )
    body = f"<!doctype html><style>{style}</style>{drawing}"
    with closing(browser.new_page(viewport={"width": 800, "height": 470})) as tab:
        tab.set_content(body)
        return np.asarray(Image.open(io.BytesIO(tab.screenshot())).convert("L"), dtype=float)


def test_it_looks_the_same(browser: Browser) -> None:
    """Points, lines that leave the panel, scattered markers of several colours, formulas, and a legend."""
    rng = np.random.default_rng(3)

    def draw(ax: Axes) -> None:
        x = np.geomspace(1e6, 1e9, 300)
        ax.plot(x, 3 / np.log(x), "o", ms=4, label="points")
        ax.plot(x, np.sin(np.log(x)), label=r"$\alpha_{10}$")
        ax.scatter(x[::9], rng.normal(size=34), c=rng.uniform(size=34), s=30, alpha=0.5)
        ax.set(ylim=(-0.8, 0.8), ylabel=neg_log_rbp_label(10), title="a < b & c", xlabel="S")
        log_axis(ax, "x")
        ax.legend()

    whole = svg.render(single_panel(draw, (7.2, 4.2)))
    before, after = (_seen(browser, each) for each in (whole[whole.index("<svg") :], svg.inline(whole, "A", "f-")))
    assert before.std() > 10, "something is drawn"
    assert np.abs(before - after).mean() < 0.6
    assert (np.abs(before - after) > 100).mean() < 1e-3
