"""Faults as small functions, each with a healthy twin that does the same thing rightly.

`silent.py` has faults of training that make no NaN, `bad_numbers.py` those that do; conditions were
made along with them. `fresh_silent.py` and `fresh_numbers.py` were written before they were tried,
and so were `forum_silent.py` and `forum_numbers.py`, of mistakes that people ask about in forums,
and, when all of these had been mended, `held_silent.py` and `held_numbers.py`. Those of
`later_silent.py` and `later_numbers.py` are of kinds that none of them has, written before they
were tried as well.
`run.py` runs them, some in one process, `one.py` one of them as a script; `benchmarks/verdicts.py`
counts what is found.
"""
