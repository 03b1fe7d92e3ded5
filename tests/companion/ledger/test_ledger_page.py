"""The claims ledger in a browser, from a file: what it says of each claim, and its filters."""

import pytest
from playwright.sync_api import expect
from tabs import write_page
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


def shown(tab):
    read = "[...document.querySelectorAll('.rbp-claim')].filter(r => r.offsetParent).map(r => r.dataset.number)"
    return {int(number) for number in tab.evaluate(read)}


def test_filters_show_what_they_choose(tab):
    tab.get_by_label("Weight").select_option("core")
    tab.get_by_label("Verdict", exact=True).select_option(FAILS)
    chosen = {entry.claim.number for entry in ENTRIES if entry.claim.core and entry.verdict == FAILS}
    assert shown(tab) == chosen
    tab.get_by_label("Search").fill("cross-entropy lognormal")
    assert shown(tab) < chosen


def test_a_claims_address_shows_its_row_whatever_is_hidden(tab, address):
    """Its name is its address; one by its number, as the book had them, leads on."""
    for name in ("noise_at_large_k", "12"):
        tab.goto(f"{address}#ledger?group=own")
        tab.reload()
        assert 12 not in shown(tab)
        tab.evaluate("name => { location.hash = `claim-${name}`; }", name)
        row = tab.locator("#claim-noise_at_large_k")
        expect(row).to_have_attribute("open", "")
        expect(row).to_be_in_viewport()
