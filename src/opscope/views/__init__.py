"""Computes from a recording what a person looks at: the page, the HTTP API and commands ask here.

Functions take readers and return plain data (`answers` says of which form). Nothing here knows
about HTTP or terminals, and nothing is changed by asking.
"""
