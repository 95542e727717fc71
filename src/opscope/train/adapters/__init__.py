"""The same watching inside other people's training loops, one file per library."""
