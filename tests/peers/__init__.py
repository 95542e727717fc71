"""The peer suite: torch's own operator, module and optimizer databases, run plainly and watched.

Everything a program can see of a call must be the same, bit for bit, and the rows that were
recorded must be those NumPy computes of the results. `python tests/peers --help` runs it by name.
"""
