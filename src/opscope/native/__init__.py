"""C++ sources, and the function that makes shared libraries of them.

`build` is called when the package is built and, where that made no library, at first use; it needs
neither torch nor NumPy. The Python side of each library lives where it is used:
`opscope.stats.native_cpu` for the statistics.
"""
