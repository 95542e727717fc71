"""Turns a framework into a stream of operator events.

Capture knows what an operator is, where it ran and what it touched; it knows nothing about files,
sinks or sessions. It hands what it sees to `pipeline`. Sessions import it, and a dump asks it what
torch says of an operator.
"""
