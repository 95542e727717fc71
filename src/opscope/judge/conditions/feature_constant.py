"""DC: features of the data that never vary."""

from __future__ import annotations

from opscope.events import FeatureFact
from opscope.judge.condition import TRAINING, Condition
from opscope.judge.features import FeatureCheck

_SHOWN = 5


class FeatureConstant(FeatureCheck):
    """Looks for features that are one number in every sample."""

    def judge(self, fact: FeatureFact) -> str | None:
        """Find such features; 0 and 1 are left out, as a flag may never be set, or always."""
        constant = fact.constant
        if not constant:
            return None
        names = ", ".join(map(str, constant[:_SHOWN])) + (" …" if constant[_SHOWN:] else "")
        return (
            f"{len(constant)} of {fact.features} features of the input ({names}) are the same in "
            f"all of {fact.samples} samples (feature {constant[0]} is {fact.value:g}); expected "
            "are features that vary: are these columns read rightly? Leave them out if they are"
        )


FEATURE_CONSTANT = Condition(
    "DC",
    "feature_constant",
    TRAINING,
    "features of the data never vary",
    training=FeatureConstant,
)
