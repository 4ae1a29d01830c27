#!/usr/bin/env python3
"""What each host tells its model of a tool's answer that has a text and `structuredContent`: one line of FACTS.md.

    python3 tests/hosts/forwarded.py INSTALLED          INSTALLED is target/hosts after tests/hosts/install
"""

import sys
import tempfile
from pathlib import Path

from hosts import HOSTS, Connection
from scripted.server import Call, Say, Scripted

PROBE = Path(__file__).with_name("probe.py")


def forwarded(installed, kind):
    with tempfile.TemporaryDirectory() as home:
        home = Path(home)
        model = Scripted(lambda results: Say("Seen.") if results else Call("both"))
        connection = Connection(command=[sys.executable, str(PROBE), str(home / "probe.log")], env={})
        host = kind(installed, home / "host", model.port, connection)
        host.start("Please call both.")
        try:
            host.finish(90)
        finally:
            host.kill()
            model.close()
        return model.results()


if __name__ == "__main__":
    for name, kind in HOSTS.items():
        print(f"{name}: {forwarded(Path(sys.argv[1]).resolve(), kind)}", flush=True)
