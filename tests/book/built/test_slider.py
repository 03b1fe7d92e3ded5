"""The interactive figure of the chapter on every k: it works offline, by mouse and by touch, wide and narrow."""

import pytest
from playwright.sync_api import Browser, Page

PAGE = "notebooks/06_every_k.html"


def _slope(tab: Page) -> float:
    """The slope of the last visible line, in decades of −ln RBP_k per decade of S."""
    return float(
        tab.evaluate(
            "() => { const all = document.querySelector('.js-plotly-plot')._fullData;"
            "const d = all.filter(t => t.visible === true && t.mode === 'lines');"
            "const t = d[d.length - 1]; const n = t.x.length - 1;"
            "return Math.log(t.y[n] / t.y[0]) / Math.log(t.x[n] / t.x[0]); }"
        )
    )


@pytest.mark.parametrize(("width", "height", "touch"), [(1280, 900, False), (390, 844, True)])
def test_the_slider_moves_through_the_thresholds(
    browser: Browser, address: str, width: int, height: int, touch: bool
) -> None:
    context = browser.new_context(viewport={"width": width, "height": height}, has_touch=touch)
    tab = context.new_page()
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.goto(f"{address}/{PAGE}")
    tab.wait_for_selector(".js-plotly-plot .slider-rail-touch-rect")
    before = _slope(tab)
    rail = tab.locator(".slider-rail-touch-rect")
    rail.scroll_into_view_if_needed()
    box = rail.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] * 0.55, box["y"] + box["height"] / 2
    if touch:
        tab.touchscreen.tap(x, y)
    else:
        tab.mouse.click(x, y)
    tab.wait_for_timeout(600)
    after = _slope(tab)
    assert after < before < 0, "a larger k has a steeper line (section 4.4)"
    assert wrong == []
    plot = tab.locator(".js-plotly-plot").bounding_box()
    assert plot is not None
    assert plot["x"] >= 0
    assert plot["x"] + plot["width"] <= width
    context.close()
