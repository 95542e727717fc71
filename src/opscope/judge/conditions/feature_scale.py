"""DF: features of the data that differ in size by orders of magnitude."""

from __future__ import annotations

from opscope.events import FeatureFact
from opscope.judge.condition import TRAINING, Condition, Parameter
from opscope.judge.features import FeatureCheck


class FeatureScale(FeatureCheck):
    """Compares the features that vary most and least."""

    def judge(self, fact: FeatureFact) -> str | None:
        """Find features next to which others vanish."""
        (small, least), (large, most) = fact.least, fact.most
        if not least > 0 or not most / least > self.watchpoint.params["ratio_gt"]:
            return None
        return (
            f"feature {large} of the input varies by {most:.3g}, feature {small} by {least:.3g}, "
            f"over {fact.samples} samples; expected are deviations of one size: normalise each "
            "feature, (x - mean) / std"
        )


FEATURE_SCALE = Condition(
    "DF",
    "feature_scale",
    TRAINING,
    "features of the data differ in size by orders of magnitude",
    parameters=(Parameter("ratio_gt", 1, default=1e4),),
    training=FeatureScale,
)
