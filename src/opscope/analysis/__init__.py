"""Pure functions over what was recorded: what went wrong first, and why."""
