"""`python -m opscope`."""

import sys

from opscope.commands import main

if __name__ == "__main__":
    sys.exit(main())
