"""The dump: operator data written in the directory layout of MindSpore's Dump.

`sink.DumpSink` hears the events, `debug_sink` has those that look for trouble, `graph_sink` the one
that writes graphs; `picking` takes what is wanted out of a step's rows. `direct` writes at once,
`background` has the process of `worker` do it; the rest is one file per kind of output. Only
sessions and commands import this folder. `ownership` imports no framework, so a path in use is
reported before torch is loaded.
"""
