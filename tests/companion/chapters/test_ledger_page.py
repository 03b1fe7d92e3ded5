"""The claims ledger in a browser, from a file: it judges as Python does, wherever the bars are."""

import itertools
import re
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import expect
from tabs import BY_MOUSE_AND_TOUCH, write_page
from test_claims import ENTRIES, RESTING, RULES

from companion.ledger import claims as ledger
from companion.ledger.page import render
from companion.ledger.rules import FAILS, HOLDS, PART, UNDECIDED


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    body = render(ENTRIES, {})
    return write_page(tmp_path_factory.mktemp("ledger"), body, "ledger.js")


def verdicts(tab):
    read = "r => [r.dataset.number, r.querySelector('.rbp-verdict').innerText]"
    shown = tab.evaluate(f"[...document.querySelectorAll('.rbp-claim')].map({read})")
    return {int(number): text.partition(" ")[2] for number, text in shown}


def judged(**moved):
    """Python's verdicts with some bars moved, by "CLAIM.BAR"."""
    found = {entry.claim.number: entry.verdict for entry in ENTRIES}
    for number, rule in RULES.items():
        own = {key.partition(".")[2]: at for key, at in moved.items() if key.startswith(f"{number}.")}
        found[number] = rule.verdict(own)
    return found | {number: rule.verdict(moved) for number, rule in RESTING.items()}


def places(bar, rule):
    """Where a bar might be: its ends, as set, a fifth about that, and upon some of the numbers in the rule."""
    found = {float(each) for each in re.findall(r"(?<![\w.])\d+\.\d+", str((rule.holds, rule.part)))}
    upon = sorted(each for each in found if bar.low <= each <= bar.high)
    return sorted({bar.low, bar.high, bar.at, bar.moved(0.2), bar.moved(-0.2), *upon[:: max(1, len(upon) // 5)]})


def test_it_judges_as_python_does_on_a_grid_of_bars(tab):
    right: list[list[str]] = []
    cases: list[Any] = []
    for rule in RULES.values():
        grid = itertools.product(*(places(bar, rule) for bar in rule.bars.values()))
        moved = [dict(zip(rule.bars, at, strict=True)) for at in grid]
        cases.append([rule.as_data(), moved])
        right.append([rule.verdict(at) for at in moved])
    found = tab.evaluate("cases => cases.map(([rule, grid]) => grid.map(at => ledger.judge(rule, at)))", cases)
    assert found == right
    assert sum(map(len, right)) > 1000
    assert {HOLDS, PART, FAILS, UNDECIDED} == set(itertools.chain(*right))


def test_all_bars_at_once(tab):
    for name, harder in (("All bars a fifth easier", -0.2), ("All bars a fifth harder", 0.2), ("Reset", 0.0)):
        tab.get_by_role("button", name=name).first.click()
        entries = ledger.stressed(ENTRIES, harder)
        assert verdicts(tab) == {entry.claim.number: entry.verdict for entry in entries}
        counts = ledger.counts(entries)
        for group in ("paper", "earlier", "others", "own"):
            texts = tab.locator(f"#claims-{group} .rbp-counts li").all_inner_texts()
            of_group = {verdict: counts[f"{group}.{key}"] for verdict, (key, _) in ledger.VERDICTS.items()}
            assert {text[2:] for text in texts} == {
                f"{verdict} {count}" for verdict, count in of_group.items() if count
            }


@pytest.mark.parametrize("tab", **BY_MOUSE_AND_TOUCH)
def test_a_bar_is_moved_by_hand_and_the_count_follows(tab, browser):
    before = verdicts(tab)
    assert before == judged()
    claim = tab.locator('[data-number="7"]')
    claim.locator("summary").click()
    slider = claim.get_by_label("orders of magnitude, to hold")
    if tab.evaluate("navigator.maxTouchPoints"):
        slider.tap(position={"x": 4, "y": 12})
    else:
        slider.focus()
        for _ in range(10):
            tab.keyboard.press("ArrowLeft")
    expect(claim.locator(".rbp-verdict")).to_contain_text("holds")
    assert verdicts(tab) == before | {7: HOLDS}
    expect(tab.get_by_role("status")).to_contain_text("1 verdict changed")
    tab.wait_for_function("location.hash.includes('7.holds=')")
    with closing(browser.new_page()) as again:
        again.goto(tab.url)
        assert verdicts(again) == before | {7: HOLDS}
    claim.get_by_role("button", name="Reset").click()
    assert verdicts(tab) == before
    tab.wait_for_function("!location.hash.includes('7.holds=')")


def shown(tab):
    read = "[...document.querySelectorAll('.rbp-claim')].filter(r => r.offsetParent).map(r => r.dataset.number)"
    return {int(number) for number in tab.evaluate(read)}


def test_filters_and_their_address(tab, browser):
    tab.get_by_label("Source").select_option("paper")
    tab.get_by_label("Weight").select_option("core")
    tab.get_by_label("Verdict", exact=True).select_option(FAILS)
    chosen = [each for each in ENTRIES if each.claim.group.key == "paper" and each.claim.core and each.verdict == FAILS]
    assert shown(tab) == {entry.claim.number for entry in chosen}
    tab.get_by_label("Search").fill("cross-entropy lognormal")
    assert shown(tab) < {entry.claim.number for entry in chosen}
    tab.wait_for_function("location.hash.includes('text=cross-entropy')")
    with closing(browser.new_page()) as again:
        again.goto(tab.url)
        assert shown(again) == shown(tab)
        again.goto(tab.url.partition("#")[0] + "#ledger?group=nobody&7.holds=x&7.orders=1&99.z=3")
        again.reload()
        assert shown(again) == {entry.claim.number for entry in ENTRIES}, "what is no choice is none"
        assert verdicts(again) == judged()


@pytest.mark.parametrize("name", ["noise_at_large_k", "12"])
def test_a_claims_address_shows_its_row_whatever_is_hidden(tab, address, name):
    """Its name is its address; one by its number, as the book had them, leads on."""
    tab.goto(f"{address}#ledger?group=own")
    tab.reload()
    assert 12 not in shown(tab)
    row = tab.locator("#claim-noise_at_large_k")
    tab.evaluate("name => { location.hash = `claim-${name}`; }", name)
    expect(row).to_have_attribute("open", "")
    expect(row).to_be_in_viewport()


def test_a_sentence_follows_the_bars_of_the_claims_on_which_it_rests(tab):
    tab.locator('[data-number="81"] summary').click()
    tab.locator('[data-number="81"]').get_by_role("link", name="1", exact=True).click()
    slider = tab.locator('[data-number="1"]').get_by_label("fits that are good, to hold")
    expect(slider).to_be_visible()  # the page opens the claim of its address: a hidden slider takes no focus
    slider.focus()
    tab.keyboard.press("End")
    assert verdicts(tab) == judged(**{"1.fits": float(slider.input_value())})
    assert verdicts(tab)[81] == PART
