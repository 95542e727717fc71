"""The run directory on disk: its names, its records, and the sink that writes them.

docs/run-directory.md describes the format. This package runs in the training process and imports
neither readers nor commands; `opscope.read` reads what it writes.
"""
