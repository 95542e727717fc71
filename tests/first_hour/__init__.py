"""The first hour of a person who has just heard of opscope."""
