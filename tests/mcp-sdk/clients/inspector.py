"""The MCP Inspector: one process a call, as a person or a script uses it."""

import json
import subprocess
import sys

from steps import CALLS, MODE, TARGET

INSPECTOR = sys.argv[3]


def inspect(*what):
    command = [INSPECTOR, "--cli", "--format", "json", "-q", "--protocol-era", MODE, "--method", *what]
    if "url" in TARGET:
        header = f"Authorization: Bearer {TARGET['token']}"
        command += ["--server-url", TARGET["url"], "--transport", "http", "--header", header, "--stored-auth-only"]
    else:
        variables = [part for name, value in TARGET["env"].items() for part in ("-e", f"{name}={value}")]
        command += [*variables, *TARGET["command"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        raise SystemExit(f"exit {done.returncode}: {done.stdout} {done.stderr}") from None


answers = {}
for name, (tool, arguments) in CALLS.items():
    result = inspect("tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
    result = result.get("result", result)
    text = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
    answers[name] = {
        "is_error": result.get("isError", False),
        "text": text,
        "structured": result.get("structuredContent"),
    }
listed = inspect("tools/list")
tools = [tool["name"] for tool in listed.get("result", listed)["tools"]]
print(json.dumps({"version": MODE, "tools": tools, "answers": answers}))
