"""`python -m roambench.emulation [--until-eof] SPEC.json` runs emulated meters until SIGTERM."""

import sys

from roambench.emulation.server import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
