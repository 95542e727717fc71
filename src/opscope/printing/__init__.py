"""`Print` and `print_`: tensors and text from inside a model, eager or compiled.

They need torch and nothing else of opscope, so they print whether or not training is watched.
"""
