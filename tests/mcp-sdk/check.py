"""MCP clients that others wrote, against a server of our own: each lists the tools, calls four of them and is refused once,
over stdio and over HTTP with a token, in every era of the protocol that it speaks."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
TOKEN = "mcp-sdk-token-of-the-tests"
TOOLS = ["cancel_run", "get_batch", "get_run", "list_agents", "list_runs", "read_artifact", "spawn_run", "spawn_runs"]
CONFIG = """\
listen: 127.0.0.1:0
providers:
  loom: { driver: script }
agents:
  echo: { provider: loom, model: script, description: Says what it is told., system_prompt: Echo., tools: [] }
"""
# Without rules the scripted model says what it is told.
CALLS = {
    "agents": ["list_agents", {}],
    "run": ["spawn_run", {"agent": "echo", "prompt": "one thread"}],
    "runs": ["spawn_runs", {"spawns": [{"agent": "echo", "prompt": f"thread {index}"} for index in range(3)]}],
    "bad": ["spawn_run", {"agent": "nobody", "prompt": "one thread"}],
}
# Client, script, Python environment, eras: what each is asked to speak, and what it must have agreed on. The Inspector does not say.
CLIENTS = [
    ("mcp 1.30.0 (Python)", "mcp_1.py", "mcp-1", {"": "2025-11-25"}),
    ("mcp 2.3.0 (Python)", "mcp_2.py", "mcp-2", {"legacy": "2025-11-25", "auto": "2026-07-28"}),
    ("fastmcp 4.1.2", "fast.py", "fastmcp", {"legacy": "2025-11-25", "auto": "2026-07-28"}),
    ("@modelcontextprotocol/sdk 1.32.2", "sdk_1.mjs", None, {"": "2025-11-25"}),
    ("@modelcontextprotocol/client 2.4.0", "sdk_2.mjs", None, {"legacy": "2025-11-25", "auto": "2026-07-28"}),
    ("Inspector 2.12.0", "inspector.py", None, {"legacy": "legacy", "auto": "auto", "modern": "modern"}),
]


def value(answer):
    """A result as a program takes it; its text must say the same."""
    structured = answer["structured"]
    assert structured is not None, f"no structured content: {answer}"
    assert answer["text"].strip(), "structured content without a text"
    return structured


def check(seen, version):
    assert seen["version"] == version, f"agreed on {seen['version']}, not {version}"
    assert sorted(seen["tools"]) == TOOLS, f"tools: {seen['tools']}"
    answers = seen["answers"]
    wrong = [name for name, answer in answers.items() if answer["is_error"] != (name == "bad")]
    assert not wrong, f"wrong in kind: { {name: answers[name] for name in wrong} }"
    agents = [agent["name"] for agent in value(answers["agents"])["agents"]]
    assert agents == ["echo"], f"agents: {agents}"
    run = value(answers["run"])
    assert (run["status"], run["final_text"]) == ("completed", "one thread"), f"run: {run}"
    runs = value(answers["runs"])["results"]
    found = [(run["index"], run["status"], run["final_text"]) for run in runs]
    assert found == [(index, "completed", f"thread {index}") for index in range(3)], f"runs: {found}"
    bad = answers["bad"]["text"]
    assert "nobody" in bad and "echo" in bad, f"an error that helps nobody: {bad}"


def talk(options, script, venv, mode, target, home):
    """One client's whole conversation."""
    node = options.installed / "node-clients/node/node_modules/.bin"
    modules = options.installed / "node-clients/clients/node_modules"
    environment = {"PATH": f"{node}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    if script.endswith(".mjs"):
        # Node finds packages beside the script, not beside the caller.
        command = [node / "node", modules.parent / script]
    else:
        python = options.installed / venv / "bin/python" if venv else sys.executable
        command = [python, HERE / "clients" / script]
    command += [json.dumps(target), mode, modules / ".bin/mcp-inspector"]
    done = subprocess.run(
        command, input=json.dumps(CALLS), capture_output=True, text=True, timeout=120, env=environment, cwd=home
    )  # fmt: skip
    assert done.returncode == 0, f"exit {done.returncode}: {done.stdout[-500:]} {done.stderr[-1500:]}"
    return json.loads(done.stdout.strip().splitlines()[-1])


def cell_holds(options, target, home, name, script, venv, mode, version, transport):
    """Whether one client over one transport does all that it is asked, with a line that says so."""
    started = time.monotonic()
    try:
        check(talk(options, script, venv, mode, target, home), version)
        verdict = "ok"
    except (AssertionError, KeyError, TypeError, ValueError, subprocess.TimeoutExpired) as error:
        verdict = f"FAILED {type(error).__name__}: {error}"
    took = time.monotonic() - started
    print(f"{name:35} {mode:7} {transport:6} {took:5.1f} s  {verdict}", flush=True)
    return verdict == "ok"


def refused(url):
    """Without the right token nothing is answered."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, body, {**headers, "Authorization": "Bearer wrong"})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            raise AssertionError(f"a wrong token was answered with {response.status}")
    except urllib.error.HTTPError as error:
        assert error.code == 401, f"a wrong token was answered with {error.code}"


def main():
    parser = argparse.ArgumentParser(prog="tests/mcp-sdk/run", description=__doc__)
    parser.add_argument("--client", help="only clients whose name holds this")
    parser.add_argument("--transport", choices=["stdio", "http"], help="only this transport")
    parser.add_argument("--drawloom", type=lambda path: Path(path).resolve(), required=True, help=argparse.SUPPRESS)
    parser.add_argument("--installed", type=lambda path: Path(path).resolve(), required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for script in (HERE / "clients").glob("*.mjs"):
        (options.installed / "node-clients/clients" / script.name).write_text(script.read_text())
    held = []
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        (home / "drawloom.yaml").write_text(CONFIG)
        places = ["--config", home / "drawloom.yaml", "--data-dir", home / "data"]
        secrets = {"DRAWLOOM_TOKEN": TOKEN, "HOME": str(home), "PATH": os.environ["PATH"]}
        with open(home / "server.log", "wb") as log:
            command = [options.drawloom, "serve", *places, "--json"]
            server = subprocess.Popen(command, env=secrets, stdout=subprocess.PIPE, stderr=log)
        try:
            line = server.stdout.readline()
            assert line, f"the server did not start: {(home / 'server.log').read_text()}"
            url = f"{json.loads(line)['url']}/mcp"
            refused(url)
            # Without flags, since the Inspector takes those of a command for its own.
            variables = {"DRAWLOOM_TOKEN": TOKEN, "DRAWLOOM_DATA_DIR": str(home / "data")}
            stdio = {"command": [str(options.drawloom), "mcp"], "env": variables}
            targets = {"stdio": stdio, "http": {"url": url, "token": TOKEN}}
            cells = [
                (name, script, venv, mode, version, transport)
                for name, script, venv, eras in CLIENTS
                for mode, version in eras.items()
                for transport in targets
                if (options.client or "") in name and transport == (options.transport or transport)
            ]
            with ThreadPoolExecutor(2) as pool:
                held = list(pool.map(lambda cell: cell_holds(options, targets[cell[-1]], home, *cell), cells))
        finally:
            server.kill()
            server.communicate()
    print(f"{sum(held)} of {len(held)} hold")
    return 0 if held and all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
