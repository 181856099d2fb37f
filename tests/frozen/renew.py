"""Freeze again what changed on purpose:

    .venv/bin/python tests/frozen/renew.py WHAT...      help, lists, worlds, documents, ledgers/bench, ...

Each WHAT is a file below tests/frozen/files without its suffix, or a folder of them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path


def main(names: list[str]) -> int:
    """Write the files names for; 2 where one is not known."""
    from frozen.today import FROZEN, file_of

    chosen = [what for what in FROZEN if any(what == one or what.startswith(f"{one}/") for one in names)]
    unknown = [one for one in names if not any(f"{what}/".startswith(f"{one}/") for what in FROZEN)]
    if unknown or not chosen:
        print(__doc__, f"Unknown: {', '.join(unknown)}" if unknown else "", file=sys.stderr)
        return 2
    for what in chosen:
        with tempfile.TemporaryDirectory() as folder:
            value = FROZEN[what](Path(folder))
        file_of(what).parent.mkdir(parents=True, exist_ok=True)
        file_of(what).write_text(
            json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8"
        )
        print(file_of(what))
    return 0


if __name__ == "__main__":
    root = Path(__file__).parents[2]
    sys.path[:0] = str(root / "tests"), str(root / "benchmarks")
    sys.exit(main(sys.argv[1:]))
