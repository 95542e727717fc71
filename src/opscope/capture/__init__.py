"""Turns a framework into a stream of operator events.

Capture knows what an operator is, where it ran and what it touched; it knows nothing about files.
It may import `events`, `pipeline` and `messages`; only `session` imports it.
"""
