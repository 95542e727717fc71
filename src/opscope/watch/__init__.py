"""Watches a training that runs: feeds the judge, tells of its hits, saves state, ends training.

It sees what no row says (tensors, what an optimizer is about to do) and writes it to the run. It
imports `judge` and `rundir`; sessions import it, and readers do not.
"""
