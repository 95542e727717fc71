"""Looking into an array: slices, pictures, histograms, statistics, differences.

Everything is read in parts, so that an array may be far larger than what is needed of it. The
training process uses this as well as the server: it knows neither tensors nor files.
"""

from opscope.arrays.index import parse_index, taken
from opscope.arrays.look import PARTS, look
from opscope.arrays.numbers import Array, Data, real

__all__ = ["PARTS", "Array", "Data", "look", "parse_index", "real", "taken"]
