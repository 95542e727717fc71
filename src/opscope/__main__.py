"""`python -m opscope`."""

import sys

from opscope.commands import main

if __name__ == "__main__":
    code = main()
    if not sys.flags.inspect:  # `python -i` would show a traceback of ours before its prompt
        sys.exit(code)
