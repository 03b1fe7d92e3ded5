"""The ledger: what the paper claims, and the verdicts that the chapters' recorded numbers give.

`claims.toml` has the claims and their rules, and `claims` judges them.
"""
