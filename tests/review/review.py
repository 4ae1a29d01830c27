"""A review by the script of the example: how it is started, and what must come of it."""

import json
import os
import re
import shutil
import signal
import subprocess

from provider import EXAMPLE
from reviewer import checklist, confirmed, report

REPOSITORY = EXAMPLE.parents[1]
PATIENCE = 120
"""How long a review may take, in seconds. None takes so long unless something is wrong."""


class Failed(Exception):
    """Something is not as it must be."""


def check(holds, message):
    if not holds:
        raise Failed(message)


def checkout(into):
    """A clean checkout of the repository as it is now: no data, nothing built."""
    shutil.rmtree(into, ignore_errors=True)
    left_out = shutil.ignore_patterns(".git", "target", "__pycache__", "node_modules")
    return shutil.copytree(REPOSITORY, into, symlinks=True, ignore=left_out)


def slices():
    """The slices of the example, as `{name: [glob]}`."""
    text = (EXAMPLE / ".claude/commands/review.md").read_text()
    lines = re.search(r"^```slices\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1].splitlines()
    return {name: globs.split(",") for name, globs in (line.split() for line in lines)}


def files_of(root, globs):
    return sorted({str(path.relative_to(root)) for glob in globs for path in root.glob(glob) if path.is_file()})


def expected(root, review):
    """The report that a review of this tree must come to, made from the files themselves: without a server, a model or a tool."""
    rules = checklist((EXAMPLE / ".claude/skills/code-review/SKILL.md").read_text())
    entries = []
    for name, globs in slices().items():
        files = files_of(root, globs)
        read = {file: dict(enumerate((root / file).read_text().split("\n"), 1)) for file in files}
        matches = [
            (file, number)
            for file, lines in read.items()
            for number, line in lines.items()
            if any(re.search(rule.pattern, line) for rule in rules)
        ]
        entry = {"slice": name, "files_present": len(files), "files_reviewed": files, "usage": {}, "cost": 0}
        entries.append(entry | {"findings": confirmed(rules, matches, read)})
    return report({"review": review}, list(slices()), entries, "")


def comparable(text):
    """A report without what it cost and when it was made."""
    check(len(re.findall(r"^- (?:Cost|Time): .*$", text, re.MULTILINE)) == 2, f"the report lacks its cost or its time:\n{text[:600]}")
    return re.sub(r"^- (Cost|Time): .*$", r"- \1", text, flags=re.MULTILINE)


def compare(text, wanted):
    """Byte by byte, apart from cost and time."""
    got, wanted = comparable(text).splitlines(), comparable(wanted).splitlines()
    lost = [line for line in wanted if got.count(line) < wanted.count(line)]
    more = [line for line in got if got.count(line) > wanted.count(line)]
    check(got == wanted, f"the report is another one: it lacks {lost[:5]}, and it has {more[:5]}")


def try_comparison(text):
    """A lost finding and a doubled one must be noticed, else a comparison shows nothing."""
    lines = text.splitlines(keepends=True)
    at = next(index for index, line in enumerate(lines) if line.startswith("- `crates/"))
    for changed in (lines[:at] + lines[at + 1 :], lines[: at + 1] + lines[at:]):
        try:
            compare("".join(changed), text)
        except Failed:
            continue
        raise Failed("a report with a finding lost or doubled passes for the same")


class Review:
    """One working directory, in which the script of a checkout reviews that checkout."""

    def __init__(self, drawloom, work, root):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        self.drawloom, self.work, self.root, self.model = drawloom, work, root, None
        self.process = None

    def environment(self):
        """No key, no settings of the machine."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.work / "home"), "DRAWLOOM": str(self.drawloom), "LANG": "C.UTF-8"}

    def layer(self, text):
        """The config file that says which models are asked."""
        self.model = self.work / "model.yaml"
        self.model.write_text(text)

    def start(self, *options):
        command = [self.root / "examples/code-review/run", "--work", self.work / "project", *options]
        command += ["--model", self.model] if self.model else []
        with open(self.work / "stderr", "wb") as said:
            self.process = subprocess.Popen(
                command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said,
                text=True, start_new_session=True,
            )  # fmt: skip

    def said(self):
        return (self.work / "stderr").read_text()

    def finish(self):
        """The report."""
        try:
            text, _ = self.process.communicate(timeout=PATIENCE)
            status = self.process.returncode
        except subprocess.TimeoutExpired:
            text, status = "", "no end"
        said = self.said()
        check(status == 0, f"the script ended with {status}, see {self.work}; it said: {said[-1500:]} {text[:300]}")
        completed = len(re.findall(r"^completed: ", said, re.MULTILINE))
        check(completed == len(slices()), f"{completed} of {len(slices())} slices completed, see {self.work}")
        return text

    def run(self, review):
        self.start("--id", review)
        return self.finish()

    def ask(self, *words):
        """What a command that reads says, with or without a server."""
        project = self.work / "project"
        layers = [project / "drawloom.yaml", project / "gates.yaml", self.model or project / "offline.yaml"]
        configs = [word for layer in layers for word in ("--config", layer)]
        done = subprocess.run(
            [self.drawloom, *words, *configs, "--data-dir", project / "data"],
            env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        check(done.returncode == 0, f"drawloom {words}: {done.stderr[-600:]}")
        return done.stdout

    def runs(self):
        return json.loads(self.ask("runs", "list", "--json", "--limit", "100"))["runs"]

    def memory(self):
        lines = self.ask("memory", "export").splitlines()
        return {entry["key"]: entry for entry in map(json.loads, lines)}

    def check_once(self, review):
        """One entry for each slice and one report, each written once by a run of its own; no run was started twice."""
        mine = {key: entry for key, entry in self.memory().items() if key.startswith(f"review/{review}/")}
        wanted = {f"review/{review}/{name}/findings" for name in slices()} | {f"review/{review}/report"}
        check(mine.keys() == wanted, f"memory has {sorted(mine.keys() ^ wanted)} too much or too little")
        twice = [key for key, entry in mine.items() if entry["provenance"].get("replaced")]
        check(not twice, f"written more than once: {twice}")
        writers = {entry["provenance"]["run_id"] for entry in mine.values()}
        check(len(writers) == len(wanted), f"{len(writers)} runs wrote {len(wanted)} entries")
        return mine

    def server(self):
        """The process of the server, when one runs."""
        try:
            server = json.loads((self.work / "project/data/server.json").read_text())
            return server["pid"] if os.path.samefile(f"/proc/{server['pid']}/exe", self.drawloom) else None
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def close(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.communicate()
        if pid := self.server():
            os.kill(pid, signal.SIGKILL)
