"""Our own side: a data directory, its server, and what the server says about its runs."""

import json
import os
import select
import signal
import subprocess
import urllib.request
from pathlib import Path

from hosts import Connection
from scripted.server import Scripted

TOKEN = "hosts-token-of-the-tests"
CONFIG = """\
providers:
  loom:
    driver: openai
    base_url: http://127.0.0.1:{port}/v1
    api_key_env: LOOM_KEY
    options: {{ header_timeout_ms: 600000 }}
concurrency: {{ max_concurrent_runs: 4 }}
agents:
  weaver: {{ provider: loom, model: {model}, description: Weaves one thread., system_prompt: Weave., tools: [] }}
  reader: {{ provider: loom, model: {model}, description: Reads one file., system_prompt: Read., tools: [Read] }}
volumes:
  slices: {{ path: slices, mode: ro, default: true }}
"""


class Loom:
    """A drawloom with one agent, `weaver`, whose model waits at the gate of the scripted model."""

    def __init__(self, binary: Path, home: Path, model_port: int):
        self.binary, self.home = binary, home
        self.data = home / "data"
        self.slices = home / "slices"
        self.slices.mkdir(parents=True)
        self.tap = None
        """Where hosts reach the server, when a tap stands between."""
        self.config = home / "drawloom.yaml"
        self.config.write_text(f"listen: 127.0.0.1:0\n{CONFIG.format(port=model_port, model=Scripted.AGENT)}")
        self.process = None
        self.url = None
        self.log = open(home / "server.log", "ab")

    def secrets(self):
        return {"DRAWLOOM_TOKEN": TOKEN, "LOOM_KEY": "sk-loom"}

    def start(self):
        """Starts the server; again on the port that it had, when it had one. Returns once it takes runs."""
        listen = ["--listen", self.url.removeprefix("http://")] if self.url else []
        command = [self.binary, "serve", "--config", self.config, "--data-dir", self.data, "--json", *listen]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), **self.secrets()}
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
            start_new_session=True,
        )
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server did not start, see {self.log.name}")
        self.url = json.loads(line)["url"]

    def connection(self, transport):
        url = self.tap.url if self.tap else self.url
        if transport == "http":
            return Connection(url=f"{url}/mcp", token=TOKEN)
        if transport == "thin":
            command = [str(self.binary), "mcp", "--upstream", url]
            return Connection(command=command, env={"DRAWLOOM_TOKEN": TOKEN})
        command = [str(self.binary), "mcp", "--config", str(self.config), "--data-dir", str(self.data)]
        return Connection(command=command, env=self.secrets())

    def install(self, host, transport, what=("--write", "--yes")):
        """Has `drawloom mcp install` write the host's own settings, or with `--plugin` its plugin, as a user would."""
        connection = self.connection(transport)
        connection.written, connection.env = True, self.secrets()
        command = [
            connection.command[0],
            "mcp",
            "install",
            *connection.command[2:],
            "--client",
            host.name,
            "--json",
            *what,
        ]
        done = subprocess.run(
            command, env=host.environment(), capture_output=True, text=True, timeout=30, cwd=self.home
        )
        if done.returncode != 0:
            raise RuntimeError(f"install failed: {done.stdout} {done.stderr}")
        connection.plugin = json.loads(done.stdout).get("plugin")
        return connection

    def found(self):
        """The server of the data directory as it says of itself, also when a proxy started it; `None` when none runs."""
        try:
            server = json.loads((self.data / "server.json").read_text())
            alive = os.path.samefile(f"/proc/{server['pid']}/exe", self.binary)
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return server if alive else None

    def crash(self):
        """`kill -9` of the server, whoever started it. Returns once it is gone."""
        server = self.found()
        if server is None:
            raise RuntimeError("no server runs on the data directory")
        watch = os.pidfd_open(server["pid"])
        signal.pidfd_send_signal(watch, signal.SIGKILL)
        select.select([watch], [], [], 20)
        os.close(watch)
        if self.process:
            self.process.wait()

    def stop(self):
        """Ends the server, whoever started it."""
        if self.found():
            self.crash()
        self.log.close()

    def ask(self, path, seconds=30):
        server = self.found()
        if server is None:
            raise RuntimeError("no server runs on the data directory any more")
        request = urllib.request.Request(f"{server['url']}{path}", headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=seconds) as response:
            return json.load(response)

    def list_tools(self):
        """The answer to `tools/list`, as sent."""
        about = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "hosts", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": about}}
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/list",
        }
        request = urllib.request.Request(f"{self.found()['url']}/mcp", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.read()

    def runs(self):
        return self.ask("/v1/runs?limit=100")["runs"]

    def settled(self, wait_ms):
        """The runs, after all of them have ended or the wait is over; oldest first."""
        for batch in {run["batch_id"] for run in self.runs()}:
            self.ask(f"/v1/batches/{batch}?wait_ms={wait_ms}", wait_ms / 1000 + 30)
        return sorted(self.runs(), key=lambda run: run["index"])
