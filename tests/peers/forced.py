"""Where any dispatch mode, also one that does nothing, changes what torch computes.

Only the fallback without native code (`OPSCOPE_NATIVE=0`) watches by a mode. The tests check that
every entry is still true: that the fallback differs there, and a mode that does nothing does too,
with the very same numbers. By entry: the subject, and the sorts of its cases that differ.

Not listed are the number of writes to a new tensor and the name of its gradient function, which
differ wherever torch avoids writing in place under a mode; both are compared for native code.
"""

from __future__ import annotations

import torch

OTHER_FORMULA = """torch asks `isTensorSubclassLike`, which is true under any mode, and takes
another formula: out of place, with eigenvectors that nobody asked for, or folded otherwise"""
CONJUGATES = """a conjugate that is made inside of a kernel is read as if it were none: under a mode
kernels run with lazy conjugation switched off"""
CRASH = "torch itself crashes under any mode: a tangent of zeros has no memory there"
RANK = "`matrix_rank(out=)` does not write to `out` under a mode"

_ALWAYS = {
    OTHER_FORMULA: {
        "op:__rmatmul__": "dual",
        "op:_batch_norm_with_update": "dual",
        "op:_native_batch_norm_legit": "dual",
        "op:cumprod": "call inplace method second",
        "op:linalg.cond": "out",
        "op:linalg.det": "second",
        "op:linalg.eig": "second",
        "op:linalg.eigh": "second",
        "op:linalg.eigvalsh": "out",
        "op:linalg.matrix_norm": "out",
        "op:linalg.norm": "out",
        "op:linalg.svdvals": "out",
        "op:linalg.vander": "second",
        "op:masked.cumprod": "second",
        "op:masked.prod": "call conjugated dual second",
        "op:masked_fill": "call",
        "op:matmul": "dual out",
        "op:matrix_exp": "second",
        "op:max.reduction_no_dim": "call method second",
        "op:min.reduction_no_dim": "call method second",
        "op:native_batch_norm": "dual",
        "op:native_group_norm": "dual",
        "op:nn.functional.batch_norm": "dual",
        "op:nn.functional.group_norm": "dual",
        "op:nn.functional.instance_norm": "dual",
        "op:nn.functional.layer_norm": "dual",
        "op:norm.nuc": "out",
        "op:ormqr": "second",
        "op:prod": "call conjugated dual method second",
        "program:eigh_twice": "program",
        "program:median_and_prod_gradients": "program",
    },
    CONJUGATES: {
        "op:linalg.lstsq": "call conjugated out second",
        "op:linalg.lstsq.grad_oriented": "call conjugated dual jvp second",
        "op:linalg.pinv": "call conjugated dual jvp out second",
        "op:linalg.pinv.singular": "call conjugated dual jvp second",
        "op:pinverse": "call conjugated dual jvp method second",
        "program:complex_pinv": "program",
        "program:custom_operator_conj": "program",
        "program:lstsq_gradients": "program",
    },
    RANK: {
        "op:linalg.matrix_rank": "out",
        "op:linalg.matrix_rank.hermitian": "out",
        "program:matrix_rank_out": "program",
    },
}
_SINCE_2_15 = {
    OTHER_FORMULA: {
        "op:linalg.det": "dual",
        "op:linalg.slogdet": "dual",
        "op:logdet": "dual",
    },
    CONJUGATES: {
        "op:linalg.matrix_sqrth": "call conjugated dual jvp",
        "op:linalg.polar": "call conjugated dual jvp out second",
    },
    CRASH: {
        "op:ldexp": "dual jvp",
    },
}


def forced() -> dict[str, str]:
    """The reason by subject and sort, as `op:prod:call`, for the torch that is there."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    tables = [_ALWAYS, _SINCE_2_15] if version >= (2, 15) else [_ALWAYS]
    return {
        f"{subject}:{sort}": reason
        for table in tables
        for reason, entries in table.items()
        for subject, sorts in entries.items()
        for sort in sorts.split()
    }
