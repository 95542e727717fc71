"""Judges what was seen: conditions, the one evaluator of them, the origin and its explanation.

It is pure: rows, calls and facts go in, wherever they come from, and hits come out. `watch` feeds
it while training runs and `analysis` from what was recorded, so that both give the same answer. It
imports `calls`, `events`, `names`, `stats` and `settings`, and neither of those two.
"""
