"""What every Python client does, and prints as one JSON: `call(tool, arguments)` answers `(is_error, texts, structured)`."""

import json
import sys

TARGET = json.loads(sys.argv[1])
"""Where the server is: `command` and `env`, or `url` and `token`."""
MODE = sys.argv[2] if len(sys.argv) > 2 else "auto"

CALLS = json.loads(sys.stdin.read())
"""The calls to make, by a name of the checker's."""


async def steps(tools, call, version):
    answers = {}
    for name, (tool, arguments) in CALLS.items():
        is_error, texts, structured = await call(tool, arguments)
        answers[name] = {"is_error": bool(is_error), "text": "\n".join(texts), "structured": structured}
    print(json.dumps({"version": version, "tools": tools, "answers": answers}))


def texts(content):
    return [block.text for block in content if block.type == "text"]
