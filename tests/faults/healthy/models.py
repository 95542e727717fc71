"""The models of the test-suite, trained long enough for every condition to have its say."""

from helpers import models

models.STEPS = 25  # instead of 5
TRAININGS = models.MODELS
