"""Readers: what was recorded, in the words of `opscope.events`.

A reader never writes, and copes with a run that is being written or that was killed. It imports
`rundir` and the names of `dump` for their formats, and `judge` for what a hit is. Analysis,
commands and pages import this package; capture and sinks do not.
"""
