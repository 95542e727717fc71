"""What a person looks at, computed from a recording: the page, the HTTP API and commands ask here.

Functions take readers and return plain data (`answers` says of which form). Nothing here knows
about HTTP or terminals, and nothing is changed by asking.
"""
