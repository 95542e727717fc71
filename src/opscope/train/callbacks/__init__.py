"""Ready-made callbacks, one file each."""
