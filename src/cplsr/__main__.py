"""`python -m cplsr` is `cplsr`."""

import sys

from cplsr.cli import main

if __name__ == "__main__":
    sys.exit(main())
