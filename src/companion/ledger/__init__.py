"""The ledger: what the paper claims, and what the chapters' recorded numbers say of it.

`claims.toml` has the claims and their rules, `claims` judges them, `rules` is what a rule is, `page` shows them.
"""
