"""Numbers that Python and the native code have in common, said once.

The build makes C++ headers of them (`headers.py`); what needs them in Python takes them from here.
It imports nothing, so that the package can be built with it.
"""

from __future__ import annotations

# ------------------------------------------------------------------ a record: stats/record.py

RECORD_BYTES = 128
RECORD_FIELDS = {
    "valid": ("u1", 0),
    "io": ("u1", 1),
    "kind": ("u1", 2),
    "slot": ("<u4", 4),
    "step": ("<i4", 8),
    "node": ("<u4", 12),
    "call": ("<u4", 16),
    "shape": ("<u4", 20),
    "count": ("<u8", 24),
    "min": ("<f8", 32),
    "max": ("<f8", 40),
    "min_int": ("<i8", 32),
    "max_int": ("<i8", 40),
    "min_uint": ("<u8", 32),
    "max_uint": ("<u8", 40),
    "mean": ("<f8", 48),
    "mean_abs": ("<f8", 56),
    "l2": ("<f8", 64),
    "std": ("<f8", 72),
    "nan": ("<u8", 80),
    "posinf": ("<u8", 88),
    "neginf": ("<u8", 96),
    "zero": ("<u8", 104),
    "negative": ("<u8", 112),
    "positive": ("<u8", 120),
}
"""Type and byte offset of each field; numbers are little-endian."""
NUMBERS = RECORD_FIELDS["count"][1]
"""The byte of a record at which its numbers begin."""
INPUT, OUTPUT = range(2)
FLOAT, INT, UINT = range(3)
"""The type that min and max of a row are stored in: float64, int64 or uint64."""

DTYPES = {
    "uint8": 0,
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "float16": 5,
    "float32": 6,
    "float64": 7,
    "complex32": 8,
    "complex64": 9,
    "complex128": 10,
    "bool": 11,
    "bfloat16": 15,
    "float8_e5m2": 23,
    "float8_e4m3fn": 24,
    "float8_e5m2fnuz": 25,
    "float8_e4m3fnuz": 26,
    "uint16": 27,
    "uint32": 28,
    "uint64": 29,
    **{f"uint{bits}": 29 + bits for bits in range(1, 8)},
    **{f"int{bits}": 36 + bits for bits in range(1, 8)},
    "float8_e8m0fnu": 44,
}
"""dtype name → its number, which is torch's own (`c10::ScalarType`)."""

# ------------------------------------------------------------------ row memory: stats/memory.py

NEXT, END, ADDRESS = range(3)
"""In the cursor: the offset of the next record, that of the buffer's end, the buffer's address."""

# ------------------------------------------------------------------ capture

SETUP, FORWARD, BACKWARD, OPTIMIZER, EVAL = range(5)
AFTER_BACKWARD, AWAITING_FORWARD, DATA, EARLY_DATA = range(5, 9)
"""Phases of a thread: capture/thread_state.py."""
NEW, SEVERAL, VIEW, WRITE, NOTHING, GENERAL = range(6)
"""The kinds of result an operator can have: capture/operators.py."""
INPUT_STATS, OUTPUT_STATS, INPUT_VALUES, OUTPUT_VALUES = 1, 2, 4, 8
OUTSIDE_STATS, PARAMETERS, ARGUMENTS = 16, 32, 64
"""The things a sink can want of a node: events.py."""
MOST_VARIANTS = 64
"""So many ways in which the inputs of a node come about are told apart: calls.py."""
MOST_FURTHER = 1 << 16
"""So many sources of calls that none of them is true of are kept in a step."""
MOST_NODES = 64
"""So many nodes a call site has in a pass: capture/node_book.py."""
KEPT_NUMBERS = 1 << 16
"""So many of autograd's numbers are kept: capture/thread_state.py."""
MANY_OUTPUTS = 16
"""So many outputs are read together: those of foreach and fused operators."""

# ------------------------------------------------------------------ rows on a device: stats/cuda

PROGRAMS = 264
COARSE, GATHERED, VERY_LARGE = 64, 1024, 2048
"""In groups of elements; forms.py says what for."""
VECTOR_BYTES = 16
THREADS, UNROLL = 256, 4
GROUP_BYTES = THREADS * UNROLL * VECTOR_BYTES
PART_SLOTS = 11
PART_BYTES, HEAD_BYTES = PART_SLOTS * 8, 64
ENTRY_BYTES = 5 * 8
MOST_IN_BATCH, MOST_PROGRAMS_IN_BATCH = 256, 32
SMALL_BYTES, MIDDLE_BYTES, HELD_BYTES = 1 << 20, 4 << 20, 64 << 20
TINY_BYTES = 4 * GROUP_BYTES
MOST_IN_RUNS = 1 << 31
HEAD, HEAD_END, PART, PART_END, SLOT, STREAM = range(6)
"""In the cursor of a device: where the next head and parts go and where their memory ends, where
the address of the next record is to be written, and the stream in use."""

# ------------------------------------------------------------------ a ring: record/ring.py

RING_MAGIC = 0x31474E4952535046
"""The first eight bytes of the file, as a number; it changes with the layout."""
RING_HEADER_BYTES = 4096
RING_HEADER = {
    "magic": 0,
    "record_bytes": 8,
    "slots": 16,
    "names_bytes": 24,
    "step_slots": 32,
    "step_bytes": 40,
    "batch_bytes": 48,
    "pid": 56,
    "head": 64,
    "completed": 72,
    "step": 80,
    "names_used": 88,
    "started_real": 96,
    "started_mono": 104,
    "steps_head": 112,
    "state": 120,
    "batch_used": 128,
    "marker_count": 136,
    "names_lost": 144,
    "oom_kills": 152,
    "random_used": 160,
    "random_bytes": 168,
}
"""Byte offsets of 64-bit numbers."""
RING_MARKERS, RING_MARKER_BYTES, RING_MOST_MARKERS = 1024, 64, 48
"""The place of the notes of how a process ends, the size of one, and how many fit."""
MARKER_SIGNAL, MARKER_FAST_EXIT, MARKER_EXIT, MARKER_EXCEPTION, MARKER_HANG = range(1, 6)
MARKER_FINISHED = 6
"""The ends a marker can tell of: a signal, os._exit, a code, an exception, a hang, the end."""
RING_RUNNING, RING_FINISHED, RING_EXPORTED = range(3)
RING_RECORD_BYTES = 96
RING_RECORD = {
    "sequence": ("<u8", 0),
    "start": ("<u8", 8),
    "end": ("<u8", 16),
    "op": ("<u4", 24),
    "inner": ("<u4", 28),
    "scope": ("<u4", 32),
    "site": ("<u4", 36),
    "node": ("<u4", 40),
    "thread": ("<u4", 44),
    "step": ("<i4", 48),
    "autograd": ("<u4", 52),
    "numel": ("<u8", 56),
    "address": ("<u8", 64),
    "bytes": ("<u8", 72),
    "collective": ("<u4", 80),
    "group": ("<u2", 84),
    "stream": ("<u2", 86),
    "dtype": ("u1", 88),
    "phase": ("u1", 89),
    "flags": ("u1", 90),
    "device": ("u1", 91),
    "device_index": ("i1", 92),
}
"""Type and byte offset of each field of a record; `sequence` counts from 1 and is written last."""
RAISED, COLLECTIVE, WAITS = 1, 2, 4
"""Flags of a record: ended by an exception; a collective; which goes on after the call returns."""
NAME_OPERATOR, NAME_SCOPE, NAME_SITE, NAME_NODE, NAME_GROUP, NAME_EDGES, NAME_LINES = range(1, 8)
"""The kinds of names in a ring."""
NAME_HEAD_BYTES = 12
"""Before each name: its length, its kind and its number, 32 bits each."""
MOST_NAMES = 1 << 16
