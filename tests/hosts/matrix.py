"""Hosts by transports by cases: runs the cells that were asked for, prints them, and records them in MATRIX.md."""

import argparse
import json
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

from cases import CASES, PATIENCE, Failed
from hosts import HOSTS
from loom import Loom
from scripted.server import Scripted

HERE = Path(__file__).parent
TRANSPORTS = {"stdio": "`drawloom mcp`", "thin": "`drawloom mcp --upstream URL`", "http": "HTTP `/mcp`"}
FIVE = ["list", "ten", "long", "cancelled", "restart"]

# Where a host sends the same when its user stops a call as when its time is over, nobody can know: see FACTS.md. Then the
# runs must go on, since a call must not die of a timeout.
DROPPED = "the host's notification is the one that it sends when its time is over: the runs went on and were completed"
UNSAID = {
    ("claude", "http"): "the host only hung up, as when its time is over: the runs went on and were completed",
    ("codex", "stdio"): DROPPED,
    ("codex", "thin"): DROPPED,
    ("codex", "http"): DROPPED,
}


class Cell:
    """One host over one transport in one case: a home, a server, a scripted model and a host of its own."""

    def __init__(self, options, host, transport, case):
        self.options, self.transport = options, transport
        self.kind = HOSTS[host]
        self.unsaid = UNSAID.get((host, transport))
        self.cancel_is_said = self.unsaid is None
        self.home = options.work / f"{host}-{transport}-{case}"
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        self.record = open(self.home / "model.jsonl", "w")
        self.scripted = self.loom = self.host = None

    def model(self, play):
        """The scripted model, and a server whose agents ask it."""
        self.scripted = Scripted(play, self.record)
        self.loom = Loom(self.options.drawloom, self.home / "loom", self.scripted.port)
        if self.transport != "stdio":
            self.loom.start()
        return self.scripted

    def start_host(self, limit=None, cancellable=False, install=None, prompt="Please weave."):
        connection = self.loom.connection(self.transport)
        self.host = self.kind(self.options.installed, self.home / "host", self.scripted.port, connection, limit)
        if install:
            self.host.connection = self.loom.install(self.host, self.transport, install)
        (self.host.start_cancellable if cancellable else self.host.start)(prompt)

    def finish_host(self):
        if self.host.finish(PATIENCE) is None:
            raise Failed(f"the host did not end; it said: {self.last_words()}")

    def run_host(self):
        self.start_host()
        self.finish_host()

    def crash_and_restart(self):
        """Over stdio the proxy starts a new server by itself; else we do, as an operator would."""
        self.loom.crash()
        if self.transport != "stdio":
            self.loom.start()

    def last_words(self):
        said = [(self.host.home / name).read_text(errors="replace").strip()[-300:] for name in ("stdout", "stderr")]
        return " / ".join(text for text in said if text) or "nothing"

    def close(self):
        if self.host and self.host.process:
            self.host.kill()
        if self.scripted:
            self.scripted.close()
        if self.loom:
            self.loom.stop()
        self.record.close()


def run(options, host, transport, case):
    """One cell: whether it held, what was seen, and how long it took."""
    started = time.monotonic()
    cell = Cell(options, host, transport, case)
    try:
        held, seen = True, CASES[case](cell)
    except Failed as failed:
        held, seen = False, str(failed)
    except Exception as error:  # noqa: BLE001 - a cell that breaks must not end the others
        held, seen = False, f"{type(error).__name__}: {error}"
    finally:
        cell.close()
    took = time.monotonic() - started
    line = f"{'ok    ' if held else 'FAILED'} {host:9} {transport:6} {case:10} {took:5.1f} s  {seen}"
    print(line if held else f"{line}\n       see {cell.home}", flush=True)
    return {
        "host": host,
        "transport": transport,
        "case": case,
        "held": held,
        "seen": " ".join(seen.split()),
        "seconds": round(took, 1),
    }


def versions(options):
    wanted = json.loads((HERE / "package.json").read_text())["dependencies"]
    ours = subprocess.run([options.drawloom, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    named = ", ".join(f"{host.name} ({host.package} {wanted[host.package]})" for host in HOSTS.values())
    return f"{ours}; {named}; Node {(options.installed / 'node-version').read_text().strip()}"


def record(options, results):
    """MATRIX.md: cells that were not run keep what they said."""
    path = HERE / "MATRIX.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    for result in results:
        kept["/".join((result["host"], result["transport"], result["case"]))] = {**result, "date": str(date.today())}
    order = [f"{host}/{transport}/{case}" for host in HOSTS for transport in TRANSPORTS for case in CASES]
    kept = {key: kept[key] for key in order if key in kept}
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    lines = [
        "# Real hosts against Drawloom",
        "",
        "Made by `tests/hosts/run --record`; do not edit. Each cell is a real host, started without a person and driven by a",
        "scripted model on loopback, with a server of its own. What the cases are is in `cases.py`, what hosts send in",
        "`FACTS.md`.",
        "",
        f"{versions(options)}.",
    ]
    for host in HOSTS:
        lines += ["", f"## {host}", "", "| transport | case | result | seen | date |", "|---|---|---|---|---|"]
        for cell in (cell for cell in kept.values() if cell["host"] == host):
            result = "ok" if cell["held"] else "**failed**"
            seen = f"{cell['seen']} ({cell['seconds']:g} s)".replace("|", "\\|")
            lines.append(f"| {TRANSPORTS[cell['transport']]} | {cell['case']} | {result} | {seen} | {cell['date']} |")
    (HERE / "MATRIX.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(prog="tests/hosts/run", description=__doc__)
    parser.add_argument("--host", action="append", choices=HOSTS, help="only this host; may be given again")
    parser.add_argument(
        "--transport", action="append", choices=TRANSPORTS, help="only this transport; may be given again"
    )
    parser.add_argument(
        "--case", action="append", choices=CASES, help="only this case; `canary`, `context`, `install`, `plugin` and `default` (80 s) only when named"
    )
    parser.add_argument("--record", action="store_true", help="write what was seen to MATRIX.md")
    parser.add_argument("--at-once", type=int, default=2, help="how many cells run at once (2)")
    parser.add_argument("--drawloom", type=lambda path: Path(path).resolve(), required=True, help=argparse.SUPPRESS)
    parser.add_argument("--installed", type=lambda path: Path(path).resolve(), required=True, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=lambda path: Path(path).resolve(), required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    print(versions(options))
    cells = [
        (host, transport, case)
        for host in options.host or HOSTS
        for transport in options.transport or TRANSPORTS
        for case in options.case or FIVE
        if (case, transport) not in (("install", "http"), ("plugin", "http"), ("canary", "stdio"))
        if case != "plugin" or host == "claude"
    ]
    with ThreadPoolExecutor(options.at_once) as pool:
        results = list(pool.map(lambda cell: run(options, *cell), cells))
    failed = [result for result in results if not result["held"]]
    print(f"{len(results) - len(failed)} of {len(results)} cells hold")
    if options.record:
        record(options, results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
