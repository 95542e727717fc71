"""The sinks that hear the events of training and have them dumped.

`dump_sink.DumpSink` is the ordinary one, `debug_sink` has those that look for trouble and chooses
among all of them, `graph_sink` writes graphs. `opening` puts a dump together; `recorder` turns
events into what is to be written, `early` before the directory is known.
"""
