"""The models of the test-suite; `run.py` trains them long enough for every condition to speak."""

from helpers import models

TRAININGS = models.MODELS
