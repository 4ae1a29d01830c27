"""The real hosts: how each is configured and started, without a person, with nothing of the machine's own settings."""

import json
import os
import signal
import socket
import subprocess
import threading
import urllib.request
from dataclasses import dataclass
from pathlib import Path

KEY = "sk-test"
SERVER = "drawloom"


@dataclass
class Connection:
    """How a host reaches our server: a command to start, or a URL with a token."""

    command: list[str] | None = None
    env: dict[str, str] | None = None
    url: str | None = None
    token: str | None = None
    written: bool = False
    """Whether `drawloom mcp install --write` has put it into the host's own settings: then we say nothing of it, and `env` is
    what the user's shell has."""
    plugin: str | None = None
    """The plugin folder that `drawloom mcp install --plugin` has written: the host loads it, and asks for every permission that
    the plugin does not give."""


class Host:
    """One host under test. `limit` is its own limit of a tool call in seconds; `None` leaves it at what it is."""

    name: str
    package: str

    def __init__(
        self, installed: Path, home: Path, model_port: int, connection: Connection, limit: float | None = None
    ):
        self.installed, self.home, self.port, self.connection, self.limit = (
            installed,
            home,
            model_port,
            connection,
            limit,
        )
        self.work = home / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        self.process = None

    def environment(self):
        """All that the host sees of the environment."""
        node = self.installed / "node/node_modules/.bin"
        path = f"{node}:{self.installed}/clients/node_modules/.bin:/usr/bin:/bin"
        xdg = {f"XDG_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CONFIG", "DATA", "CACHE", "STATE")}
        shell = self.connection.env if self.connection.written else {}
        return {
            "PATH": path,
            "HOME": str(self.home),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            **xdg,
            **self.settings(),
            **shell,
        }

    def start(self, prompt):
        """Starts the host in a group of its own; its output goes to files in its home."""
        self.launch(self.command(prompt))

    def launch(self, command, stdin=subprocess.DEVNULL, listen_for=None):
        """Starts a command of the host. `listen_for` is a word and the event to set when a line of its output has it."""
        self.configure()
        stdout = open(self.home / "stdout", "wb")
        with open(self.home / "stderr", "wb") as stderr:
            self.process = subprocess.Popen(
                command, env=self.environment(), cwd=self.work, stdin=stdin, stderr=stderr, start_new_session=True,
                stdout=subprocess.PIPE if listen_for else stdout,
            )  # fmt: skip
        if listen_for:
            threading.Thread(target=keep_lines, args=(self.process.stdout, stdout, *listen_for), daemon=True).start()
        else:
            stdout.close()

    def start_cancellable(self, prompt):
        """Starts it so that `cancel` can do what its user does to stop a call."""
        self.start(prompt)

    def finish(self, seconds):
        """Waits for its end; a host that has not ended by then is killed. Says how it ended: a code, or `None`."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def cancel(self):
        """What its user does to stop a call: Ctrl-C, unless the host has something of its own."""
        self.process.send_signal(signal.SIGINT)

    def leave(self):
        """Ends a host that waits for more after a cancelled call."""

    def kill(self):
        """Ends what is left of the group that we started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def output(self):
        return (self.home / "stdout").read_text(errors="replace")


class Claude(Host):
    name = "claude"
    package = "@anthropic-ai/claude-code"

    def settings(self):
        limit = {} if self.limit is None else {"MCP_TOOL_TIMEOUT": str(int(self.limit * 1000))}
        return {
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self.port}",
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "IS_SANDBOX": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "API_TIMEOUT_MS": "60000",
            **limit,
        }

    def configure(self):
        to = self.connection
        if to.url:
            server = {"type": "http", "url": to.url, "headers": {"Authorization": f"Bearer {to.token}"}}
        elif to.written:
            return
        else:
            server = {"type": "stdio", "command": to.command[0], "args": to.command[1:], "env": to.env or {}}
        (self.home / "mcp.json").write_text(json.dumps({"mcpServers": {SERVER: server}}))

    def command(self, prompt):
        start = ["claude", "-p", prompt, "--output-format", "json"]
        if self.connection.plugin:
            return [*start, "--plugin-dir", self.connection.plugin]
        ours = [] if self.connection.written else ["--mcp-config", str(self.home / "mcp.json"), "--strict-mcp-config"]
        return [*start, *ours, "--dangerously-skip-permissions"]

    def validate(self, plugin):
        """What the host itself says of a plugin folder: whether it is valid, and its words."""
        command = ["claude", "plugin", "validate", "--strict", plugin]
        done = subprocess.run(
            command, env=self.environment(), cwd=self.work, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )  # fmt: skip
        return done.returncode == 0, done.stdout + done.stderr

    def start_cancellable(self, prompt):
        flags = self.command(prompt)[3:]
        flags[flags.index("json")] = "stream-json"
        self.launch(["claude", "-p", "--input-format", "stream-json", "--verbose", *flags], stdin=subprocess.PIPE)
        self.tell({"type": "user", "message": {"role": "user", "content": prompt}})

    def cancel(self):
        self.tell({"type": "control_request", "request_id": "stop", "request": {"subtype": "interrupt"}})

    def leave(self):
        self.process.stdin.close()

    def tell(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def final(self):
        """What the host printed as the model's last words."""
        return json.loads(self.output().strip().splitlines()[-1]).get("result", "")


class Codex(Host):
    name = "codex"
    package = "@openai/codex"

    def settings(self):
        return {"CODEX_HOME": str(self.home / ".codex"), "FAKE_KEY": KEY, "MCP_TOKEN": self.connection.token or ""}

    def configure(self):
        to = self.connection
        if to.url:
            server = {"url": to.url, "bearer_token_env_var": "MCP_TOKEN"}
        else:
            command, *arguments = to.command
            server = {"command": command, "args": arguments}
        server |= {"required": True, "startup_timeout_sec": 30}
        if self.limit is not None:
            server["tool_timeout_sec"] = self.limit
        provider = {
            "name": "fake", "base_url": f"http://127.0.0.1:{self.port}/v1", "env_key": "FAKE_KEY", "wire_api": "responses",
            "request_max_retries": 0, "stream_max_retries": 0,
        }  # fmt: skip
        top = {
            "model": "fake-model", "model_provider": "fake", "approval_policy": "never", "sandbox_mode": "danger-full-access",
            "check_for_update_on_startup": False,
        }  # fmt: skip
        tables = {
            "analytics": {"enabled": False}, "feedback": {"enabled": False}, "otel": {"exporter": "none"},
            "history": {"persistence": "none"}, "model_providers.fake": provider,
        }  # fmt: skip
        if not to.written:
            tables[f"mcp_servers.{SERVER}"] = server
        if to.env and not to.written:
            tables[f"mcp_servers.{SERVER}.env"] = to.env
        lines = [f"{key} = {json.dumps(value)}" for key, value in top.items()]
        for table, keys in tables.items():
            lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
        settings = self.home / ".codex/config.toml"
        settings.parent.mkdir(exist_ok=True)
        written = settings.read_text() if to.written else ""
        settings.write_text("\n".join(lines) + "\n" + written)

    def command(self, prompt):
        return [
            "codex",
            "exec",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "--json",
            prompt,
        ]

    def final(self):
        events = [json.loads(line) for line in self.output().splitlines() if line.startswith("{")]
        texts = [
            event["item"].get("text", "") for event in events if event.get("item", {}).get("type") == "agent_message"
        ]
        return texts[-1] if texts else ""


class OpenCode(Host):
    name = "opencode"
    package = "opencode-ai"

    def settings(self):
        off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
        return {"OPENCODE_CONFIG": str(self.home / "oc.json"), **{f"OPENCODE_DISABLE_{what}": "1" for what in off}}

    def configure(self):
        to = self.connection
        if to.url:
            headers = {"Authorization": f"Bearer {to.token}"}
            server = {"type": "remote", "url": to.url, "headers": headers, "oauth": False, "enabled": True}
        else:
            server = {"type": "local", "command": to.command, "environment": to.env or {}, "enabled": True}
        if self.limit is not None:
            server["timeout"] = int(self.limit * 1000)
        options = {"baseURL": f"http://127.0.0.1:{self.port}/v1", "apiKey": KEY}
        models = {"fake-model": {"tool_call": True, "limit": {"context": 200000, "output": 8000}}}
        config = {
            "autoupdate": False, "share": "disabled", "model": "fake/fake-model", "small_model": "fake/fake-model",
            "enabled_providers": ["fake"], "permission": {"*": "allow"}, "mcp": {} if to.written else {SERVER: server},
            "provider": {"fake": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}},
        }  # fmt: skip
        (self.home / "oc.json").write_text(json.dumps(config))

    def command(self, prompt):
        return ["opencode", "run", "--auto", "--format", "json", prompt]

    def start_cancellable(self, prompt):
        """`opencode run` takes no orders; its server does."""
        self.address = f"http://127.0.0.1:{free_port()}"
        listening = threading.Event()
        self.launch(
            ["opencode", "serve", "--port", self.address.rpartition(":")[2]], listen_for=("listening", listening)
        )
        if not listening.wait(60):
            raise TimeoutError("opencode's server does not listen")
        self.session = self.post("/session", {})["id"]
        self.post(f"/session/{self.session}/prompt_async", {"parts": [{"type": "text", "text": prompt}]})

    def cancel(self):
        self.post(f"/session/{self.session}/abort", {})

    def leave(self):
        self.process.terminate()

    def post(self, path, body):
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.loads(response.read() or b"null")

    def final(self):
        events = [json.loads(line) for line in self.output().splitlines() if line.startswith("{")]
        texts = [event["part"].get("text", "") for event in events if event.get("type") == "text"]
        return texts[-1] if texts else ""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def keep_lines(source, target, word, heard):
    with source, target:
        for line in source:
            target.write(line)
            target.flush()
            if word.encode() in line:
                heard.set()


HOSTS = {host.name: host for host in (Claude, Codex, OpenCode)}
