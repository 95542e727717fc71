"""Understands an SQL question: which tables, and which nodes and steps of the statistics.

DuckDB itself takes the question apart. Conditions on names, nodes and steps that hold for every row
of the answer are asked of the small tables first, so that only the rows they leave are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

_STATS = "stats"
_OF_NODES = frozenset({"rank", "node", "name", "op_type", "scope", "phase"})
_OF_STEPS = frozenset({"rank", "step"})
_OPAQUE = frozenset({"SUBQUERY", "LAMBDA", "PARAMETER", "STAR", "WINDOW", "LAMBDA_REF"})
_UNNAMED = frozenset({"STAR", "NATURAL", "PIVOT", "SHOW_REF", "TABLE_FUNCTION", "LAMBDA"})

Tree = Any


class Question(NamedTuple):
    """The part of a question that could be understood."""

    tables: frozenset[str] | None = None
    """The tables it names; None if it may need any."""
    conditions: tuple[Tree, ...] = ()
    """The conditions that hold for every row of the statistics that matters."""
    alias: str = _STATS
    """The name of the statistics in them."""
    columns: frozenset[str] | None = None
    """The columns it names, of whatever table; None if it may need any."""


class Chosen(NamedTuple):
    """By rank, the nodes and steps that matter; None for all."""

    nodes: dict[int, set[int]] | None
    steps: dict[int, set[int]] | None


def understand(connection: Any, sql: str) -> Question:
    """Take a question apart; what is no plain SELECT is not understood, which does no harm."""
    tree = _serialized(connection, sql)
    if tree is None:
        return Question()
    references = [each for each in _objects(tree) if "table_name" in each]
    names = frozenset(str(each["table_name"]).lower() for each in references)
    if any(each.get("type") != "BASE_TABLE" for each in references):
        return Question()
    select = tree["statements"][0]["node"]
    of_stats = [each for each in references if str(each["table_name"]).lower() in (_STATS, "rows")]
    columns = _all_columns(tree)
    if not _is_plain(select) or len(of_stats) != 1:
        return Question(names, columns=columns)
    alias = select["from_table"].get("alias") or _STATS
    aliases = {str(each.get("alias", "")).lower() for each in select.get("select_list", ())}
    found = [c for c in _conjuncts(select.get("where_clause")) if not _columns(c) & aliases]
    return Question(names, tuple(found), alias, columns)


def choose(connection: Any, question: Question) -> Chosen:
    """Ask the tables `nodes` and `row_steps` what the conditions leave of them."""
    of_nodes = [c for c in question.conditions if _columns(c) and _columns(c) <= _OF_NODES]
    of_steps = [c for c in question.conditions if "step" in _columns(c) <= _OF_STEPS]
    return Chosen(
        _ask(connection, "nodes", "node", of_nodes, question.alias),
        _ask(connection, "row_steps", "step", of_steps, question.alias),
    )


def _ask(
    connection: Any, table: str, column: str, conditions: list[Tree], alias: str
) -> dict[int, set[int]] | None:
    if not conditions:
        return None
    tree = _serialized(connection, f'SELECT rank, "{column}" FROM "{table}" WHERE true AND true')
    select = tree["statements"][0]["node"]
    select["from_table"]["alias"] = alias
    select["where_clause"]["children"] = conditions
    if len(conditions) == 1:
        select["where_clause"] = conditions[0]
    ((sql,),) = connection.execute(
        "SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]
    ).fetchall()
    found: dict[int, set[int]] = {}
    for rank, number in connection.execute(sql).fetchall():
        found.setdefault(rank, set()).add(number)
    return found


def _serialized(connection: Any, sql: str) -> Tree:
    """The tree of a SELECT; None for anything else."""
    import duckdb

    try:
        ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    except duckdb.Error:
        return None
    tree = json.loads(text)
    is_one = not tree.get("error") and len(tree.get("statements", ())) == 1
    return tree if is_one else None


def _is_plain(select: Tree) -> bool:
    """Tell whether it is one SELECT from the statistics alone."""
    if select.get("type") != "SELECT_NODE" or select.get("cte_map", {}).get("map"):
        return False
    source = select.get("from_table") or {}
    is_stats = str(source.get("table_name", "")).lower() == _STATS
    return is_stats and not source.get("sample") and not source.get("column_name_alias")


def _conjuncts(where: Tree) -> list[Tree]:
    if not isinstance(where, dict):
        return []
    if where.get("type") == "CONJUNCTION_AND":
        return [part for child in where["children"] for part in _conjuncts(child)]
    return [where]


def _all_columns(tree: Tree) -> frozenset[str] | None:
    """Every column that is named anywhere; None where some may be meant without being named."""
    found: set[str] = set()
    for part in _objects(tree):
        if part.get("class") in _UNNAMED or part.get("ref_type") in _UNNAMED:
            return None
        if part.get("type") in _UNNAMED:
            return None
        if part.get("class") == "COLUMN_REF":
            found.add(str(part["column_names"][-1]).lower())
        found |= {str(name).lower() for name in part.get("using_columns") or ()}
    return frozenset(found)


def _columns(condition: Tree) -> frozenset[str]:
    """The columns a condition is about; none if it looks further than its row."""
    parts = [part for part in _objects(condition) if "class" in part]
    if any(part["class"] in _OPAQUE for part in parts):
        return frozenset()
    references = (part for part in parts if part["class"] == "COLUMN_REF")
    return frozenset(str(part["column_names"][-1]).lower() for part in references)


def _objects(tree: Tree) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _objects(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _objects(value)
