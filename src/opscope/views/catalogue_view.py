"""The conditions there are, for whoever sets watchpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.judge.catalogue import CONDITIONS

if TYPE_CHECKING:
    from opscope.views.answers import ConditionFacts


def conditions() -> list[ConditionFacts]:
    """All conditions with their parameters."""
    return [
        {
            "abbr": condition.abbr,
            "id": condition.id,
            "target": condition.target,
            "summary": condition.summary,
            "nonfinite": condition.nonfinite,
            "parameters": [
                {
                    "name": parameter.name,
                    "default": parameter.default,
                    "allowed": parameter.allowed,
                    "is_threshold": not parameter.only_support,
                }
                for parameter in condition.parameters
            ],
        }
        for condition in CONDITIONS
    ]
