"""The user's choice of what is dumped: which operators, devices, slots and rows of a step.

`wanted` reads that from the settings, `marks` has what the script itself marks, and `picking`
takes what is wanted out of a step's rows.
"""
