"""Asks the judge about what was recorded: a run or a dump, through their readers.

It imports `judge` and `read`; commands and `opscope.open` import it, and a training does not.
"""
