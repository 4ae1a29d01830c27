#!/usr/bin/env python3
"""Makes a golden directory: starts a server, gives it runs of every kind, kills it in the middle and keeps its store.

usage: make.py FIXTURE FORMAT

FIXTURE is the example `fixture` of the version that writes FORMAT. README.md beside this file says how to build it.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The same for every format, but for the comment.
CONFIG = HERE / "format-6" / "drawloom.yaml"
# While the directory is made, `slow` must not answer and `throttled` must not try again.
SLOW = [("delay_ms: 1\n", "delay_ms: 3600000\n"), ("retry_after_ms: 1500", "retry_after_ms: 30000")]
TEN_SECONDS = 10


def post(url, path, body, method="POST"):
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), head, method=method)
    request.add_header("Accept", "application/json")
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def get(url, path):
    with urllib.request.urlopen(url + path, timeout=60) as response:
        return json.load(response)


def spawn(url, name, agent, prompt, user, **more):
    user = {"user_id": user} if user else {}
    return post(url, "/v1/runs", {"agent": agent, "prompt": prompt, "agent_id": name, **user, **more})


def until(url, name, status):
    """Waits until a run has this status: what is waited for is an event of the server, which tells only ends."""
    end = time.monotonic() + TEN_SECONDS
    while (found := get(url, f"/v1/agents/{name}")["status"]) != status:
        if time.monotonic() > end:
            sys.exit(f"{name} is {found} after {TEN_SECONDS} seconds, not {status}")
        time.sleep(0.02)


def give_channel(url):
    """A channel made at runtime, with two settings after each other and two messages. Format 10 has no versions of channels."""
    post(url, "/v1/channels", {"name": "golden-channel", "scope": "user", "description": "Golden.", "max_messages": 50})
    post(url, "/v1/channels/golden-channel", {"max_messages": 40}, "PATCH")
    for number in (1, 2):
        post(url, "/v1/channels/golden-channel/publish", {"value": number, "user_id": "ada"})


def give_runs(url):
    """What `tests/durability/golden.rs` looks for."""
    give_channel(url)
    post(url, "/v1/memory/tenant/keys/golden", {"value": "the first words"}, "PUT")
    post(url, "/v1/memory/tenant/keys/golden", {"value": "the golden words"}, "PUT")
    spawn(url, "golden-done", "quick", "hello", "ada", mode="join")
    spawn(url, "golden-failed", "broken", "no", "ada", mode="join")
    spawn(url, "golden-long", "long", "long", None, mode="join")
    spawns = [{"agent": "quick", "prompt": "a"}, {"agent": "quick", "prompt": "b"}]
    post(url, "/v1/runs:batch", {"spawns": spawns, "idempotency_key": "golden-key"})
    spawn(url, "golden-timer", "throttled", "wait", "ada", mode="detach")
    until(url, "golden-timer", "waiting")
    spawn(url, "golden-parent", "boss", "both", "ada", mode="detach")
    until(url, "golden-parent", "waiting")
    # `slow` of the parent and the first three have the four slots.
    for number in range(1, 6):
        spawn(url, f"golden-slow-{number}", "slow", "later", "bob", mode="detach")
    until(url, "golden-slow-3", "running")
    until(url, "golden-slow-5", "queued")
    runs = get(url, "/v1/runs?limit=100")["runs"]
    statuses = sorted(run["status"] for run in runs)
    expected = ["completed"] * 5 + ["failed"] + ["queued"] * 2 + ["running"] * 4 + ["waiting"] * 2
    if statuses != expected:
        sys.exit(f"the runs are {statuses}, not {expected}")


def fold_log(file, wanted):
    """Moves the write-ahead log of the killed server into the file, which is then the whole store. Returns when it was killed."""
    store = sqlite3.connect(file)
    (busy, *_), = store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (found,), = store.execute("PRAGMA user_version")
    (whole,), = store.execute("PRAGMA integrity_check")
    (last,), = store.execute("SELECT max(accepted_at) FROM runs")
    store.close()
    log = file.with_name(file.name + "-wal")
    if busy or whole != "ok" or (log.exists() and log.stat().st_size > 0):
        sys.exit(f"the log could not be folded: busy {busy}, integrity {whole}")
    if found != wanted:
        sys.exit(f"the fixture writes format {found}, not {wanted}")
    return last


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    fixture, wanted = sys.argv[1], int(sys.argv[2])
    config = CONFIG.read_text().replace("format 6", f"format {wanted}", 1)
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        making = config
        for short, long in SLOW:
            assert making.count(short) == 1, f"{short!r} must be in the config once"
            making = making.replace(short, long)
        (directory / "drawloom.yaml").write_text(making)
        settings = {"ledger": str(directory / "ledger"), "calls": str(directory / "calls")}
        environment = {**os.environ, "DRAWLOOM_FIXTURE": json.dumps(settings)}
        environment.pop("DRAWLOOM_TOKEN", None)
        command = [fixture, str(directory / "drawloom.yaml"), str(directory / "data")]
        server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
        try:
            url = server.stdout.readline().strip()
            give_runs(url)
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        file = directory / "data" / "drawloom.db"
        last = fold_log(file, wanted)
        golden = HERE / f"format-{wanted}"
        golden.mkdir(exist_ok=True)
        (golden / "drawloom.db").write_bytes(file.read_bytes())
        (golden / "drawloom.yaml").write_text(config)
    print(f"{golden}: killed after {last} (milliseconds since 1970)")


main()
