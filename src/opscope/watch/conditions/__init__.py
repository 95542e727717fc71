"""The conditions: one small pure function each, grouped by what they look at."""
