"""The claims ledger in a browser, from a file: what it says of each claim, and its filters."""

from contextlib import closing

import pytest
from playwright.sync_api import expect
from tabs import BY_MOUSE_AND_TOUCH, write_page
from test_claims import ENTRIES, STRESSED

from companion.execute.rules import FAILS
from companion.render.ledger_page import render


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return write_page(tmp_path_factory.mktemp("ledger"), render(ENTRIES, STRESSED, {}), "ledger.js")


def test_each_claim_has_its_verdict_and_those_with_other_bars(tab):
    read = """[...document.querySelectorAll('.rbp-claim')].map(row => [row.id.replace('claim-', ''),
        ...[...row.querySelectorAll('.rbp-verdict')].map(each => each.textContent.slice(2))])"""
    shown = {name: verdicts for name, *verdicts in tab.evaluate(read)}
    assert shown.keys() == {entry.claim.name for entry in ENTRIES}
    for entry, easier, harder in zip(ENTRIES, *STRESSED.values(), strict=True):
        others = [easier.verdict, harder.verdict] if entry.claim.bars or entry.claim.rests_on else []
        assert shown[entry.claim.name] == [entry.verdict, *others]


def test_bars_stand_with_their_numbers_and_lead_to_the_claims_on_which_one_rests(tab):
    tab.locator("#claim-law > summary").click()
    expect(tab.locator("#claim-law")).to_contain_text("R² of a good fit: 0.97; fits that are good, to hold: 90%")
    tab.locator("#claim-argument_scales > summary").click()
    tab.locator("#claim-argument_scales").get_by_role("link", name="1", exact=True).click()
    expect(tab.locator("#claim-law")).to_be_in_viewport()


def shown(tab):
    read = "[...document.querySelectorAll('.rbp-claim')].filter(r => r.offsetParent).map(r => r.dataset.number)"
    return {int(number) for number in tab.evaluate(read)}


@pytest.mark.parametrize("tab", **BY_MOUSE_AND_TOUCH)
def test_filters_and_their_address(tab, browser):
    tab.get_by_label("Source").select_option("paper")
    tab.get_by_label("Weight").select_option("core")
    tab.get_by_label("Verdict", exact=True).select_option(FAILS)
    chosen = [each for each in ENTRIES if each.claim.group.key == "paper" and each.claim.core and each.verdict == FAILS]
    assert shown(tab) == {entry.claim.number for entry in chosen}
    of_all = f"Showing {len(chosen)} of {len(ENTRIES)}: {FAILS} {len(chosen)}"
    expect(tab.get_by_role("status")).to_have_text(of_all)
    tab.get_by_label("Search").fill("cross-entropy lognormal")
    assert shown(tab) < {entry.claim.number for entry in chosen}
    tab.wait_for_function("location.hash.includes('text=cross-entropy')")
    with closing(browser.new_page()) as again:
        again.goto(tab.url)
        assert shown(again) == shown(tab)
        again.goto(tab.url.partition("#")[0] + "#ledger?group=nobody&99.z=3")
        again.reload()
        assert shown(again) == {entry.claim.number for entry in ENTRIES}, "what is no choice is none"


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
