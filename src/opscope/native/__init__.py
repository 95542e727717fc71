"""C++ sources, and the function that makes shared libraries of them.

`build` is called when the package is built and, where that made no library, at first use; nothing
here needs torch or the rest of opscope. The Python side of each library lives where it is used:
`opscope.stats.native_cpu` for the statistics.
"""
