"""Minutes of `make reproduce`: all small studies of the five papers, from nothing, on all cores.

python benchmarks/reproduction.py [--jobs 2]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time

from setting.figures import keep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    jobs = parser.parse_args().jobs
    with tempfile.TemporaryDirectory(prefix="roambench-") as folder:
        words = ["reproduce", "--jobs", str(jobs), "--output", f"{folder}/runs", "--pages", f"{folder}/pages"]
        began_s = time.monotonic()
        subprocess.run([sys.executable, "-m", "roambench.cli.main", *words], check=True)
        minutes = (time.monotonic() - began_s) / 60
    print(f"{minutes:.1f} minutes with {jobs} jobs")
    keep("reproduction two cores", minutes)


if __name__ == "__main__":
    main()
