"""The dump: operator data written in the directory layout of MindSpore's Dump.

`sink.DumpSink` hears the events and decides what to keep; `jobs` write it, at once or on the thread
of `background`; the rest is one file per kind of output. Only sessions and commands import this
folder. `ownership` imports no framework, so a path in use is reported before torch is loaded.
"""
