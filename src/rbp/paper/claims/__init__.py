"""The claims ledger: what the paper claims, and what the chapters' recorded numbers say of it.

`ledger` is its frame, `rules` what decides, `page` how it is shown; each of the other modules enters its claims when it
is imported, which is here.
"""

from rbp.paper.claims import comparisons, emergence, law, ledger, others, own, page

__all__ = ["comparisons", "emergence", "law", "ledger", "others", "own", "page"]
