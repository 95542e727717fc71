"""The content of a dump's files: names, `.npy` and packed values, tables, manifest and graphs.

Nothing here knows when something is written or by which process.
"""
