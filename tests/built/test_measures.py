"""Each page is no longer, no wider, no fainter and no wordier than what was reached: measures.csv, to be lowered."""

from pathlib import Path

import measures
import pandas as pd
import pytest
from draws import loop_and_slow
from playwright.sync_api import Browser

LIMITS = pd.read_csv(measures.LIMITS, index_col="page")
SLACK = 1.05  # another machine's fonts


@pytest.mark.parametrize("every", loop_and_slow(12, 1))
def test_no_page_grows_or_is_cut_or_fades(browser: Browser, book: Path, every: int) -> None:
    names = measures.page_names(book)
    found = measures.measure(browser, book, list(dict.fromkeys(["book/welcome.html", *names[::every]])))
    assert found[["cut_desktop", "cut_phone"]].to_numpy().max() == 0
    over = {
        f"{page}: {column} is {found.loc[page, column]}, at most {limit}"
        for column in measures.LIMITED
        for page, limit in LIMITS.loc[found.index, column].dropna().items()
        if not found.loc[page, column] <= SLACK * limit
    }
    assert over == set()
