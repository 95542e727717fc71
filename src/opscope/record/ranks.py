"""Several ranks beside each other: who stopped where, and which collective is missing whom."""

from __future__ import annotations

from typing import Any

from opscope.record.cause import FINISHED, HANG, RUNNING

_FOLLOWERS = ("SIGTERM", "SIGINT", "SIGHUP", HANG)
"""The ways in which other ranks end once one is gone."""


def compare(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Report on all ranks together, led by the first that went."""
    missing = _missing(reports)
    first = _first(reports, missing)
    world = max([int(each.get("world_size") or 1) for each in reports], default=1)
    present = {int(each["rank"]) for each in reports}
    return {
        "world_size": max(world, len(present)),
        "first": None if first is None else first["rank"],
        "cause": "unknown" if first is None else first["cause"],
        "cause_text": "" if first is None else first["cause_text"],
        "last_op": None if first is None else first["last_op"],
        "source": None if first is None else first["source"],
        "missing": missing,
        "absent": sorted(set(range(world)) - present),
        "ranks": reports,
    }


def _missing(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Collectives that some ranks wait in and others have not entered."""
    found = []
    groups = {group for each in reports for group in each["collectives"]}
    for group in sorted(groups):
        entered = {
            int(each["rank"]): each["collectives"][group]
            for each in reports
            if group in each["collectives"]
        }
        reached = max(last["number"] for last in entered.values())
        waiting = sorted(
            rank for rank, last in entered.items() if last["number"] == reached and not last["left"]
        )
        behind = sorted(rank for rank, last in entered.items() if last["number"] < reached)
        if waiting and behind:
            last = entered[waiting[0]]
            found.append(
                {
                    "group": group,
                    "number": reached,
                    "name": last["name"],
                    "waiting": waiting,
                    "missing": behind,
                    "source": last["source"],
                }
            )
    return found


def _first(reports: list[dict[str, Any]], missing: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The rank whose end explains the others: one that a collective misses, or the first to go."""
    if not reports:
        return None
    absent = {rank for each in missing for rank in each["missing"]}

    def order(each: dict[str, Any]) -> tuple[bool, bool, bool, float]:
        ended_well = each["cause"] in (FINISHED, RUNNING)
        follows = each["cause"] in _FOLLOWERS
        return ended_well, follows, int(each["rank"]) not in absent, float(each["last_time"])

    return min(reports, key=order)
