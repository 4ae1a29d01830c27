"""What `./test` looks at: the example from a clean checkout by its script, and the same driven by real Claude Code."""

import argparse
import hashlib
import json
import re
import shlex
import sys
import time
from pathlib import Path

from provider import Anthropic
from review import PATIENCE, REPOSITORY, Failed, Review, check, checkout, compare, expected, files_of, slices, try_comparison

sys.path.insert(0, str(REPOSITORY / "tests/hosts"))
from hosts import Claude, Connection  # noqa: E402
from scripted.server import Call, Say, Scripted  # noqa: E402
from told import value_in  # noqa: E402

CANARY = r"canary-review-[0-9a-f]{16}"
LAYER = """\
providers:
  fake: {{ driver: anthropic, base_url: "http://127.0.0.1:{port}" }}
tiers:
  middle: [{{ provider: fake, model: fake-reviewer }}]
pricing:
  models:
    fake/fake-reviewer: {{ input: 1, output: 5 }}
"""


def plant(tree):
    """Puts a canary of its own into every file that is reviewed. Returns the canaries."""
    canaries = set()
    for file in sorted({file for globs in slices().values() for file in files_of(tree, globs)}):
        canary = f"canary-review-{hashlib.sha256(file.encode()).hexdigest()[:16]}"
        canaries.add(canary)
        with open(tree / file, "a") as text:
            text.write(f"// {canary}\n")
    return canaries


def digest(root):
    """Every file of a tree, and what is in it."""
    whole = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        whole.update(f"{path.relative_to(root)}\0".encode())
        whole.update(path.read_bytes() if path.is_file() else b"")
    return whole.hexdigest()


def at_once(runs):
    """Most runs that had a slot at one moment, by the times in the journal."""
    times = [(run["timings"]["started_at"], run["timings"]["ended_at"]) for run in runs]
    return max(sum(began <= at < ended for began, ended in times) for at, _ in times)


def by_script(options, tree):
    """The script, offline, from the checkout: two reviews, of which neither touches the other nor the checkout."""
    before = digest(tree)
    review = Review(options.drawloom, options.work / "script", tree)
    try:
        reports = {name: review.run(name) for name in ("first", "second")}
        for name, text in reports.items():
            compare(text, expected(tree, name))
            check(not re.search(CANARY, text), "the report quotes a file")
        try_comparison(reports["first"])
        for name, text in reports.items():
            kept = review.check_once(name)[f"review/{name}/report"]["value"]
            check(kept.strip() == text.strip(), f"the report in memory is not the one that was printed: {kept[:300]}")
        runs = review.runs()
        ended = sorted((run["agent"], run["status"]) for run in runs)
        wanted = 2 * [("code-reviewer", "completed")] * len(slices()) + 2 * [("review-consolidator", "completed")]
        check(ended == wanted, f"the runs are {ended}")
        most = at_once(runs)
        check(1 < most <= 4, f"{most} runs had a slot at once")
    finally:
        review.close()
    check(digest(tree) == before, "the checkout was changed")
    files = re.search(r"^- Files: (.*)$", text, re.MULTILINE)[1]
    found = re.search(r"^- Findings: (.*)$", text, re.MULTILINE)[1]
    merged = re.search(r"^- Duplicates: (\d+)", text, re.MULTILINE)[1]
    check(int(merged) > 0, "no slices overlap: merging is not tried")
    return f"two reviews: 10 of 10 slices each, {files}, {found}, {merged} duplicates merged; at most {most} runs had a slot at once"


def by_host(options, tree, canaries):
    """Claude Code with the project that the script prepares: `/mcp__drawloom__review`, one `spawn_runs`, one `spawn_run`. What its
    model got, and every file that it kept, has the report and no canary; a run that says what it reads is caught."""
    provider = Anthropic(delay=0.02)
    provider.canary = CANARY
    review = Review(options.drawloom, options.work / "host", tree)
    review.layer(LAYER.format(port=provider.port))
    leaked = files_of(tree, slices()["engine"])[0]
    seen = {}

    def play(results):
        """The host's model: it takes the slices from the prompt that it was given."""
        prompt = model.conversation()[0].prompt
        listed = re.search(r"```slices\n(.*?)```", prompt, re.DOTALL)
        if not listed or "id is: by-host" not in prompt:
            return Say(f"no prompt: {prompt[:300]}")
        names = [line.split() for line in listed[1].splitlines()]
        if not results:
            spawns = [
                {"agent": "code-reviewer", "prompt": f"review=by-host slice={name} paths={paths}"} for name, paths in names
            ]
            return Call("spawn_runs", {"spawns": spawns})
        if len(results) == 1:
            batch = value_in(results[0]) or {}
            spent = f"tokens={batch['tokens']} cost={batch['cost']}"
            prompt = f"review=by-host slices={','.join(name for name, _ in names)} {spent}"
            return Call("spawn_run", {"agent": "review-consolidator", "prompt": prompt})
        if len(results) == 2:
            seen.setdefault("bytes", (home / "model.jsonl").read_bytes())
            return Call("spawn_run", {"agent": "code-reviewer", "prompt": f"leak={leaked}"})
        return Say((value_in(results[1]) or {}).get("final_text", "no report"))

    home = options.work / "host/claude"
    home.mkdir(parents=True)
    with open(home / "model.jsonl", "w") as record:
        model = Scripted(play, record)
        host = None
        try:
            review.start("--host", "--id", "by-host")
            command = told(review)
            host = Claude(options.installed, home / "home", model.port, Connection(command=command, env=review.environment()))
            host.start("/mcp__drawloom__review by-host")
            check(host.finish(PATIENCE) == 0, f"the host failed: {host.output()[-600:]}")
            final = host.final()
            review.check_once("by-host")
            runs = [run for run in review.runs() if "batch_id" in run]
        finally:
            if host and host.process:
                host.kill()
            model.close()
            review.close()
            provider.close()
    check(len(model.results()) == 3, f"the host's model saw {len(model.results())} results and said {final[:600]}")
    compare(final, expected(tree, "by-host"))
    check("0.00 USD" not in final and "USD" in final, f"the report lacks what it cost: {final[:600]}")
    batch = value_in(model.results()[0]) or {}
    completed = [result["status"] for result in batch["results"]].count("completed")
    check((len(runs), completed) == (10, 10), f"{completed} of {len(runs)} reviewers completed")
    most = at_once(runs)
    check(1 < most <= 4, f"{most} runs had a slot at once")
    check(provider.most_in_flight <= 4, f"{provider.most_in_flight} model calls were in flight at once")
    check(not provider.rejected, f"the provider rejected: {provider.rejected[:3]}")
    check(provider.seen == canaries, f"reviewers saw {len(provider.seen)} of {len(canaries)} canaries")
    report = json.dumps(comparable_line(final))[1:-1].encode()
    check(report in seen["bytes"], "the record of what the host's model got lacks the report")
    check(not re.search(CANARY.encode(), seen["bytes"]), "a canary reached the host's model")
    # The control: what a run says about a file does reach the host, so the search above can find something.
    after = (home / "model.jsonl").read_bytes()
    caught = set(re.findall(CANARY.encode(), after))
    check(len(caught) == 1, f"the control was not caught: {len(caught)} canaries")
    kept = {found for path in (home / "home").rglob("*") if path.is_file() for found in re.findall(CANARY.encode(), path.read_bytes())}
    check(kept <= caught, f"the host kept {len(kept)} canaries in its files")
    return (
        f"10 of 10 slices by one spawn_runs, at most {most} runs had a slot at once and {provider.most_in_flight} model calls were in flight; "
        f"{len(canaries)} canaries were read, none is in the {len(seen['bytes'])} bytes that the host's model got; the report is; the control was caught"
    )


def comparable_line(text):
    """A line of the report with a finding in it."""
    return next(line for line in text.splitlines() if line.startswith("- `crates/"))


def told(review):
    """The command that the script prints for the host."""
    for line in review.process.stdout:
        if line.startswith("claude mcp add drawloom -- "):
            return shlex.split(line)[5:]
    raise Failed(f"the script printed no command: {review.said()[-600:]}")


def main():
    parser = argparse.ArgumentParser(prog="tests/review/run", description=__doc__)
    for name in ("--drawloom", "--installed", "--work"):
        parser.add_argument(name, type=lambda path: Path(path).resolve(), required=True)
    options = parser.parse_args()
    tree = checkout(options.work / "checkout")
    canaries = plant(tree)
    held = True
    for name, case in (("script", lambda: by_script(options, tree)), ("host", lambda: by_host(options, tree, canaries))):
        started = time.monotonic()
        try:
            seen, word = case(), "ok    "
        except Failed as failed:
            seen, word, held = str(failed), "FAILED", False
        print(f"{word} {name:6} {time.monotonic() - started:5.1f} s  {seen}", flush=True)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
