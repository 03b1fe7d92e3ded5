"""How long and how legible each page is, in a browser: `python tests/built/measures.py [FOLDER] [--limits]`.

Prints a row for each page of a built book (default: the project's). `--limits` writes what `test_measures.py` allows:
what is reached now, to be lowered.
"""

import shutil
import sys
from contextlib import closing
from pathlib import Path

import pandas as pd
from playwright.sync_api import Browser, sync_playwright

DESKTOP, PHONE, PAPER = (1280, 900), (390, 844), (680, 960)  # A4 between its margins, in CSS pixels
SCRIPT = Path(__file__).with_suffix(".js")
LIMITS = Path(__file__).with_name("measures.csv")
LIMITED = ["desktop", "phone", "words", "long", "figure", "scrolled", "behind", "cut_paper"]
LIMITED += ["faint_light", "faint_dark"]
SENTENCE = 22  # words, beyond which a sentence is long


def page_names(folder: Path) -> list[str]:
    """The pages of a built book, chapters first; not those that lead on from an old address."""
    found = sorted((*folder.glob("notebooks/*.html"), *folder.glob("book/*.html")), reverse=True)
    return [each.relative_to(folder).as_posix() for each in found if '="refresh"' not in each.read_text("utf-8")]


def measure(browser: Browser, folder: Path, names: list[str]) -> pd.DataFrame:
    """Measure pages, a row for each.

    desktop, phone, paper: screens or sheets; cut_...: pixels, and on paper tables too, that are cut off; words: in
    sight; sentences, and how many of them are long; figure: the first one's top, in pixels; scrolled: tables and
    formulas that scroll within themselves; behind: tables whose second column a phone shows only when they are
    scrolled; faint_...: colours of texts whose contrast is below 4.5 (3 where large), and of figures' marks below 3.
    """
    rows = []
    with closing(browser.new_page()) as tab:

        def show(size: tuple[int, int], **media: str) -> None:
            tab.emulate_media(**media)
            tab.set_viewport_size({"width": size[0], "height": size[1]})
            tab.wait_for_timeout(100)  # charts are drawn anew

        for name in names:
            show(DESKTOP, media="screen", color_scheme="light")
            tab.goto((folder / name).as_uri())
            tab.add_style_tag(content="* { transition: none !important }")
            tab.add_script_tag(path=SCRIPT)
            row: dict[str, object] = {"page": name.removesuffix(".html")}
            for where, size in {"desktop": DESKTOP, "phone": PHONE, "paper": PAPER}.items():
                show(size, media="print" if where == "paper" else "screen")
                seen = tab.evaluate("length()")
                row |= {where: round(seen["height"] / size[1], 1), f"cut_{where}": max(0, seen["wide"])}
                if where == "desktop":
                    row |= {key: seen[key] for key in ("words", "figure", "scrolled")}
                    counted = tab.evaluate("sentences()")
                    long = [text for text, words in counted if words > SENTENCE]
                    row |= {"sentences": len(counted), "long": len(long), "long_which": long}
                elif where == "phone":
                    row["behind"] = seen["behind"]
                else:
                    row["cut_paper"] += seen["scrolled"]
            for theme in ("light", "dark"):
                show(DESKTOP, media="screen", color_scheme=theme)
                tab.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
                found = tab.evaluate("faint()")
                row |= {f"faint_{theme}": len(found), f"faint_{theme}_which": found}
            rows.append(row)
    return pd.DataFrame(rows).set_index("page")


def main() -> None:
    """Measure a built book and print the table."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from conftest import BROWSERS, FLAGS

    from companion.project import Project

    named = [Path(each) for each in sys.argv[1:] if not each.startswith("--")]
    folder = (named[0] if named else Project().html).resolve()
    program = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        table = measure(browser, folder, page_names(folder))
        browser.close()
    which = [column for column in table if column.endswith("_which")]
    print(table.drop(columns=which).to_string())
    for column in which:
        for page, found in table.loc[table[column].map(bool), column].items():
            print(f"{page}: {column.removesuffix('_which')}:", *found, sep="\n    ")
    if "--limits" in sys.argv:
        table[LIMITED].to_csv(LIMITS)


if __name__ == "__main__":
    main()
