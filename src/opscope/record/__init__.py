"""The recorder: what a dead training leaves behind.

`ring` is the file that everything goes to while training runs, `recorder` starts and ends it,
`program` follows modules, phases and steps, `death` sees to it that every end is noted. `reading`
reads a ring, also that of a process that is gone; `export` makes files and a report of it, in the
process itself or in the `witness` that outlives it. Sessions and commands import this folder; it
imports no reader of runs.
"""
