"""The scripted model of tests/hosts, which can also fail as a real one does, and answers requests without tools."""

import json
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "hosts"))

from scripted.server import Call, Say, Scripted  # noqa: E402

FAILURES = {
    401: {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}},
    429: {"type": "error", "error": {"type": "rate_limit_error", "message": "Rate limit reached"}},
}

__all__ = ["FAILURES", "Call", "Model", "Say"]


class Model(Scripted):
    """`plain` answers requests that offer no tools; while `status` is set, every request fails with it."""

    def __init__(self, play, plain="Weaving"):
        self.plain = plain
        self.status = None
        self.free = threading.Event()
        """While it is not set, no request is answered."""
        self.free.set()
        super().__init__(play)

    def answer(self, asked):
        self.free.wait()
        if not asked.tools:
            return self.plain, None
        return super().answer(asked)

    def _handler(self):
        model, base = self, super()._handler()

        class Handler(base):
            def do_POST(self):
                if model.status is None:
                    return super().do_POST()
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.reply(model.status, "application/json", json.dumps(FAILURES[model.status]))

            def handle(self):
                try:
                    super().handle()
                except ConnectionError:
                    # Who asked was killed.
                    pass

        return Handler
