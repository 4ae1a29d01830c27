"""The real coding CLIs: how each is pointed at the scripted model, as its user would, and what its model must call to edit."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

KEY = "sk-test"
FILE = "woven.txt"


@dataclass
class Edit:
    """What the model does to write `FILE`: a tool with its arguments, or a text for a CLI without tools."""

    tool: str | None
    arguments: dict
    plain: str = "Weaving"


class Cli:
    name: str
    """The preset."""
    model: str | None = None
    """The model that the agent names."""

    def __init__(self, home: Path, port: int):
        self.home, self.port = home, port

    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def environment(self):
        """The login, as variables of the server."""
        return {}

    def configure(self):
        """The login, as files in the user's home."""

    def log_out(self):
        """The environment of a user without a login, after taking it from the home."""
        return {}

    def edit(self, directory: Path, file: str = FILE):
        raise NotImplementedError


class Claude(Cli):
    name = "claude_code"

    def environment(self):
        return {"ANTHROPIC_BASE_URL": self.url(), "ANTHROPIC_API_KEY": KEY}

    def log_out(self):
        return {"ANTHROPIC_BASE_URL": self.url()}

    def edit(self, directory, file=FILE):
        return Edit("Write", {"file_path": str(directory / file), "content": "woven\n"})


class Codex(Cli):
    name = "codex"

    def environment(self):
        return {"OPENAI_FAKE_KEY": KEY}

    def configure(self):
        provider = {
            "name": "fake", "base_url": f"{self.url()}/v1", "env_key": "OPENAI_FAKE_KEY", "wire_api": "responses",
            "request_max_retries": 0, "stream_max_retries": 0,
        }  # fmt: skip
        top = {"model": "fake-model", "model_provider": "fake", "check_for_update_on_startup": False}
        lines = [f"{key} = {json.dumps(value)}" for key, value in top.items()]
        lines += ["[model_providers.fake]", *(f"{key} = {json.dumps(value)}" for key, value in provider.items())]
        (self.home / ".codex").mkdir(exist_ok=True)
        (self.home / ".codex/config.toml").write_text("\n".join(lines) + "\n")

    def log_out(self):
        (self.home / ".codex/config.toml").unlink()
        return {}

    def edit(self, directory, file=FILE):
        return Edit("exec_command", {"cmd": f"echo woven > {file}"})


class OpenCode(Cli):
    name = "opencode"

    def configure(self, key=KEY):
        options = {"baseURL": f"{self.url()}/v1", "apiKey": key}
        models = {"fake-model": {"tool_call": True, "limit": {"context": 200000, "output": 8000}}}
        config = {
            "autoupdate": False, "share": "disabled", "model": "fake/fake-model", "small_model": "fake/fake-model",
            "enabled_providers": ["fake"],
            "provider": {"fake": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}},
        }  # fmt: skip
        (self.home / ".config/opencode").mkdir(parents=True, exist_ok=True)
        (self.home / ".config/opencode/opencode.json").write_text(json.dumps(config))

    def environment(self):
        return {"OPENCODE_DISABLE_MODELS_FETCH": "1"}

    def edit(self, directory, file=FILE):
        return Edit("write", {"filePath": str(directory / file), "content": "woven\n"})


class Aider(Cli):
    name = "aider"
    model = "openai/fake-model"

    def environment(self):
        return {"OPENAI_API_BASE": f"{self.url()}/v1", "OPENAI_API_KEY": KEY}

    def log_out(self):
        return {"OPENAI_API_BASE": f"{self.url()}/v1"}

    def edit(self, directory, file=FILE):
        return Edit(None, {}, f"I write it.\n\n{file}\n```\nwoven\n```\n")


CLIS = {cli.name: cli for cli in (Claude, Codex, OpenCode, Aider)}


def installed(hosts: Path, aider: Path):
    """The `PATH` that finds them all."""
    return os.pathsep.join(
        str(path)
        for path in (hosts / "node/node_modules/.bin", hosts / "clients/node_modules/.bin", aider / "bin", "/usr/bin", "/bin")
    )
