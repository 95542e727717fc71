"""The numbers about one value: the row, the engines that compute it, and tensors as NumPy arrays.

`engine` is the seam: submit a tensor, get a row that is ready now or later. Capture and sinks may
import this package; it imports nothing of theirs.
"""
