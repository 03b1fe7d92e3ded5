"""The claims ledger as a reader meets it, and against the list of the paper's claims."""

import json
from pathlib import Path

from bs4 import BeautifulSoup

from companion.ledger.claims import GROUPS, VERDICTS, read_claims
from companion.project import Project

LEDGER = "notebooks/ledger.html"


def test_every_row_has_a_verdict_a_finding_a_rule_and_links_to_its_figure_or_table(
    soups: dict[str, BeautifulSoup], book: Path
) -> None:
    for row in soups[LEDGER].select(".rbp-claim"):
        verdict = row.select_one(".rbp-verdict").get_text(" ", strip=True)
        assert any(verdict.endswith(known) for known in VERDICTS), row["id"]
        assert len(row.select_one(".rbp-finding > p").get_text()) > 30, row["id"]
        assert row.select_one(".rbp-rule"), row["id"]
        page, _, anchor = str(row.select_one(".rbp-evidence a")["href"]).partition("#")
        text = (book / "notebooks" / page).read_text(encoding="utf-8")
        assert f'id="{anchor or None}"' in text, row["id"]


def test_each_group_counts_the_recorded_verdicts_and_the_papers_are_on_the_welcome_page(
    soups: dict[str, BeautifulSoup],
) -> None:
    ledger = soups[LEDGER]
    values = {key: each["value"] for key, each in json.loads(Project().results.read_text())["ledger"].items()}
    for group in GROUPS:
        verdicts = [values[f"verdict.{claim.name}"] for claim in read_claims() if claim.group == group]
        found = [number for verdict in VERDICTS if (number := verdicts.count(verdict))]
        counts = ledger.select(f"#claims-{group.key} .rbp-counts li b")
        assert [int(each.get_text()) for each in counts] == found
        assert len(ledger.select(f"#claims-{group.key} .rbp-claim")) == sum(found)
    paper = [values[f"count.paper.{key}"] for key in ("holds", "part", "fails", "undecided")]
    assert sum(paper) == values["count.paper.judged"]
    welcome = soups["book/welcome.html"].get_text()
    counted = "{} hold, {} hold in part, {} do not, and {} are not decided".format(*paper)
    assert counted in " ".join(welcome.split())
