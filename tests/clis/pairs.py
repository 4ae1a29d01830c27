"""Times a whole `drawloom run` on each real coding CLI with two builds of drawloom in turns, so that what disturbs the machine falls on both.

    python3 tests/clis/pairs.py --drawloom NEW --beside OLD --hosts target/hosts --aider target/clis/aider --work DIRECTORY
"""

import argparse
import copy
import resource
import statistics
import time
from pathlib import Path

from clis import CLIS
from matrix import Bench, check


def timed(bench):
    """The time of a run and the processor time of everything that it started, in ms."""
    began, used = time.monotonic(), processor()
    result = bench.run()
    check(result.get("status") == "completed", f"{result.get('error')}")
    return (time.monotonic() - began) * 1000, (processor() - used) * 1000


def processor():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def build(bench, options, name):
    """The same user with one of the builds, and data of its own."""
    one = copy.copy(bench)
    one.options = argparse.Namespace(**{**vars(options), "drawloom": getattr(options, name).resolve()})
    one.data = bench.home / f"data-{name}"
    one.config = bench.home / f"config-{name}"
    one.configure("rw", {"readable_paths": [str(path) for path in options.readable]})
    timed(one)
    return one


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("drawloom", "beside", "hosts", "aider", "work"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--readable", type=Path, action="append", default=[], help="a directory that the CLI needs and the old build hides")
    parser.add_argument("--cli", choices=CLIS, action="append")
    options = parser.parse_args()
    for name in ("hosts", "aider", "work"):
        setattr(options, name, getattr(options, name).resolve())
    print(f"medians of {options.pairs} pairs, ms")
    print(f"{'CLI':12} {'':10} {'new':>6} {'old':>6} {'new-old':>8}  quartiles")
    for cli in options.cli or CLIS:
        bench = Bench(options, cli, "pairs")
        # The older build goes first, in the home of a user who has used the CLI before.
        benches = [build(bench, options, name) for name in ("beside", "drawloom")][::-1]
        pairs = []
        for index in range(options.pairs):
            order = (0, 1) if index % 2 == 0 else (1, 0)
            times = {which: timed(benches[which]) for which in order}
            pairs.append((times[0], times[1]))
        for which, what in enumerate(("time", "processor")):
            new, old = (statistics.median(pair[build][which] for pair in pairs) for build in (0, 1))
            low, middle, high = statistics.quantiles([pair[0][which] - pair[1][which] for pair in pairs], n=4)
            print(f"{cli:12} {what:10} {new:6.0f} {old:6.0f} {middle:+8.0f}  {low:+.0f}..{high:+.0f}", flush=True)
        bench.close()


if __name__ == "__main__":
    main()
