"""Looks at every check of a conformance run: nothing failed, nothing was left out, nothing passed for want of a fixture."""

import json
import pathlib
import re
import sys

revision, out, expected_file, requirements = sys.argv[1:]
expected = json.loads(pathlib.Path(expected_file).read_text()).get(revision, {})
# What a server says that lacks a fixture; a scenario that "passes" with such an answer proves nothing.
VACUOUS = re.compile(r"there is no (tool|prompt|resource)\b|[Uu]nknown tool|untestable|could not be exercised")

# The lists are plain YAML: a key, then "- name" lines.
scored, section = [], None
for line in pathlib.Path(requirements).read_text().splitlines():
    if re.match(r"^\w+:", line):
        section = line.split(":")[0]
    elif section == "server" and (found := re.match(r"\s+- ([\w-]+)\s*$", line)):
        scored.append(found.group(1))

seen, problems, met = {}, [], set()
for path in sorted(pathlib.Path(out).glob("*/checks.json")):
    name = re.match(r"server-(.*)-\d{4}-\d\d-\d\dT", path.parent.name).group(1)
    checks = json.loads(path.read_text())
    good = 0
    for check in checks:
        status, ident = check["status"], check["id"]
        words = check.get("errorMessage") or ""
        if status in ("SUCCESS", "INFO"):
            good += status == "SUCCESS"
            # Scenarios about unknown names are meant to hear this.
            about_unknown = "not-found" in name or "not-found" in ident or "stateless" in name
            if VACUOUS.search(json.dumps(check.get("details", ""))) and not about_unknown and name not in expected:
                problems.append(f"{name} / {ident}: passed on an answer that says there is no such thing")
        elif ident in expected.get(name, {}):
            met.add((name, ident))
        else:
            problems.append(f"{name} / {ident}: {status} {words}")
    seen[name] = good
    if good == 0 and name not in expected:
        problems.append(f"{name}: no check passed")

problems += [f"{name}: scored, and did not run" for name in scored if name not in seen]
tasks = sorted(name for name in seen if name.startswith("tasks-"))
if revision == "2026-07-28" and len(tasks) < 10:
    problems.append(f"only {len(tasks)} tasks scenarios ran")
for name, checks in expected.items():
    problems += [f"{name} / {ident}: listed as expected, and it passed" for ident in checks if (name, ident) not in met]

print(f"  {revision}: {len(seen)} scenarios, {len(scored)} of them scored, {len(tasks)} of tasks, {sum(seen.values())} checks passed")
for name, checks in expected.items():
    for ident, cause in checks.items():
        print(f"    expected: {name} / {ident}: {cause}")
for problem in problems:
    print(f"    PROBLEM {problem}")
sys.exit(1 if problems else 0)
