"""One file for each condition, or for a few that are alike: its `Condition`, and what it checks.

A new condition is a file here and a name in `opscope.judge.catalogue`.
"""
