"""What `./prove loop` shows: the refine loop of `examples/refine-loop` comes to the same end when the server is killed at random points,
whichever way its team is made: the same table, the same winner, as many messages and evaluations, no memory left.
`PROVE_SEED` chooses the points and `PROVE_KILLS` how many there are."""

import argparse
import http.client
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/refine-loop"
WAYS = ["yaml", "rest", "mcp"]
PATIENCE = 120
"""Seconds in which a loop must end, however often its server is killed."""

TABLE = """\
| Hop | Laconic | Metaphor | Faithfulness | Overall |
|---|---|---|---|---|
| 1 | 0.90 | 0.95 | 0.90 | 0.92 |
| 2 | 0.95 | 0.93 | 0.92 | 0.93 |
| 3 | 0.97 | 0.98 | 0.95 | 0.97 |
| 4 | 0.96 | 0.97 | 0.96 | 0.96 |
| 5 | 0.98 | 0.99 | 0.97 | 0.98 ← winner |"""
MESSAGES = {"questions": 5, "answers": 5, "done": 1}


def load_example():
    """The example's own script, as a module."""
    loader = importlib.machinery.SourceFileLoader("refine_loop", str(EXAMPLE / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("refine_loop", loader))
    loader.exec_module(module)
    return module


class Server:
    """A server that can be killed and comes back on the same data."""

    def __init__(self, program, way, work):
        config = ["--config", str(EXAMPLE / "drawloom.yaml")]
        if way == "yaml":
            config += ["--config", str(EXAMPLE / "team.yaml")]
        self.command = [program, "serve", "--json", "--log", "warn", *config, "--data-dir", str(work / "data")]
        self.log = open(work / "server.log", "ab")
        self.changed, self.kills = threading.Condition(), 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        said = self.process.stdout.readline()
        if not said:
            raise SystemExit(f"the server did not start: {self.log.name}")
        with self.changed:
            self.url = json.loads(said)["url"]
            self.changed.notify_all()

    def kill(self):
        """SIGKILL, and a new start."""
        with self.changed:
            self.url = None
        self.process.kill()
        if self.process.wait() != -signal.SIGKILL:
            raise SystemExit(f"the server ended by itself: {self.log.name}")
        self.kills += 1
        self.start()

    def address(self):
        with self.changed:
            if not self.changed.wait_for(lambda: self.url, timeout=30):
                raise SystemExit("the server did not come back")
            return self.url

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


class Surviving:
    """A surface whose calls are made again, under the same idempotency key, when the server goes away."""

    def __init__(self, example, kind, server):
        self.example, self.kind, self.server, self.surface = example, kind, server, None
        self.deadline = time.monotonic() + PATIENCE

    def call(self, operation, /, **fields):
        while True:
            if time.monotonic() > self.deadline:
                raise SystemExit(f"the loop did not end within {PATIENCE} s; {operation} was next")
            url = self.server.address()
            try:
                if self.surface is None or self.surface[0] != url:
                    self.surface = (url, self.kind(url))
                return self.surface[1].call(operation, **fields)
            except (OSError, http.client.HTTPException, json.JSONDecodeError, AttributeError, TypeError):
                pass
            except self.example.Refused as refused:
                # A server that is about to end, or a session of the one before.
                if not any(sign in str(refused) for sign in (": 503 ", ": 404 ", "unavailable")) or self.server.address() == url:
                    raise
            self.surface = None
            time.sleep(0.005)


def refine(example, program, way, work, lives):
    """One loop whose server lives so many seconds, and its followers too; how many were killed before its end, and its time."""
    work.mkdir(parents=True)
    server = Server(program, way, work)
    over, failed = threading.Event(), []
    began = time.monotonic()

    def kills():
        try:
            for life in lives:
                if over.wait(life):
                    return
                server.kill()
        except BaseException as error:
            failed.append(error)

    killer = threading.Thread(target=kills, daemon=True)
    killer.start()
    try:
        surface = Surviving(example, example.Mcp if way == "mcp" else example.Rest, server)
        if way != "yaml":
            example.create(surface)
        runs, result = example.loop(surface)
        took = time.monotonic() - began
        over.set()
        killer.join()
        if failed:
            raise failed[0]
        check(surface, runs, result, example, f"{way} {lives} in {work}")
        return server.kills, took
    finally:
        over.set()
        killer.join(PATIENCE)
        server.stop()


def check(surface, runs, result, example, name):
    """The end is the one of the text, and nothing happened twice."""
    evaluations = surface.call("list_evaluations", run_id=runs["answerer"])["evaluations"]
    left = surface.call("list_memory", scope="user", user_id=example.USER, keys_only=True)["entries"]
    counted = {}
    for channel in MESSAGES:
        page = surface.call("peek_channel", channel=channel, user_id=example.USER, from_cursor="cur_0", max_messages=100)
        counted[channel] = len(page["messages"])
    others = {agent: surface.call("get_run", run_id=run, wait_ms=30_000)["status"] for agent, run in runs.items()}
    for what, found, wanted in (
        ("status", others, dict.fromkeys(runs, "completed")),
        ("table", example.table(evaluations), TABLE),
        ("evaluations", len(evaluations), 5),
        ("winner", result["final_text"].split("\n")[-2], "Winner: hop5 with 0.98"),
        ("messages", counted, MESSAGES),
        ("memory", left, []),
    ):
        if found != wanted:
            raise SystemExit(f"prove: {name}: {what} is {found!r}, not {wanted!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drawloom", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    options = parser.parse_args()
    os.environ["DRAWLOOM"] = options.drawloom
    example = load_example()
    dice = random.Random(os.environ.get("PROVE_SEED", "1"))
    wanted = int(os.environ.get("PROVE_KILLS", "100"))
    work = options.work / f"{os.getpid()}"
    usual, kills, loops = {}, dict.fromkeys(WAYS, 0), 0
    for way in WAYS:
        _, usual[way] = refine(example, options.drawloom, way, work / f"{way}-quiet", [])
        print(f"prove: {way}: without a kill the loop takes {usual[way]:.2f} s", flush=True)
    # One loop whose servers never live as long as a loop takes.
    lives = [dice.uniform(usual["mcp"] / 8, usual["mcp"] / 2) for _ in range(max(2, wanted // 10))]
    often, took = refine(example, options.drawloom, "mcp", work / "often", lives)
    print(f"prove: mcp: {often} kills in one loop of {took:.2f} s: the same end", flush=True)
    kills["mcp"] += often
    while sum(kills.values()) < wanted:
        way = WAYS[loops % len(WAYS)]
        loops += 1
        killed, _ = refine(example, options.drawloom, way, work / f"{way}-{loops}", [dice.uniform(0, usual[way])])
        kills[way] += killed
    print(f"prove: {sum(kills.values())} kills ({', '.join(f'{way} {kills[way]}' for way in WAYS)}) in {loops + 1} loops: the same table, winner, messages and evaluations")


if __name__ == "__main__":
    main()
