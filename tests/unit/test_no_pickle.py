"""Nothing of opscope reads or writes pickles: files and messages of others cannot run code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "opscope"
FORBIDDEN = {"pickle", "cPickle", "shelve", "dill", "cloudpickle", "joblib"}
LOADERS = {"torch.load", "np.load", "numpy.load"}


def test_nothing_imports_pickle() -> None:
    assert list(offences(FORBIDDEN, set())) == []


def test_loaders_are_told_to_refuse_pickles() -> None:
    """NumPy refuses them unless told otherwise; torch has to be told."""
    assert list(offences(set(), LOADERS)) == []


def offences(modules: set[str], loaders: set[str]) -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            where = f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import):
                yield from (where for name in node.names if name.name.partition(".")[0] in modules)
            elif isinstance(node, ast.ImportFrom):
                if (node.module or "").partition(".")[0] in modules:
                    yield where
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in loaders:
                given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                refuses = given.get("allow_pickle", "False") == "False"
                is_torch = ast.unparse(node.func) == "torch.load"
                if not refuses or (is_torch and given.get("weights_only") != "True"):
                    yield where
