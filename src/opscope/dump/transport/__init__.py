"""The way of values into files: at once (`direct`), or by a process of its own (`background`).

`writer` says what the dump asks of both; `store` is the directory that either of them fills. The
process is `worker`, which `process` starts and which hears through `channel`, `memory` and `arena`.
`ownership` keeps two runs out of one directory; it imports no framework, so a path in use is
reported before torch is loaded.
"""
