"""`python tests/fuzz KIND FIRST LAST`: damage a recording with these seeds and say what fails."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.campaign import campaign, told
from fuzz.recorded import record

kind, first, last, *few = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    recorded = record(kind, Path(folder))
    failures = campaign(kind, recorded, int(first), int(last), int(few[0]) if few else 0)
print(told(failures))
print(len(failures), "failures")
