"""Readers: what was recorded, in the words of `opscope.events`.

A reader never writes, and copes with a run that is being written or that was killed. Analysis,
commands and pages import this package; capture and sinks do not.
"""
