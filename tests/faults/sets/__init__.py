"""Faults as small functions, each with a healthy twin that does the same thing rightly.

`silent.py` has faults of training that make no NaN, `bad_numbers.py` those that do. `run.py` runs
them, some in one process; `benchmarks/verdicts.py` counts what is found.
"""
