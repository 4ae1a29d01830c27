"""A scripted reviewer: plays the model of both agents of this example, without a provider.

It is a function of the conversation and nothing else, so a turn that is asked again gets the same answer. It knows no file of
the repository: what to look for it takes from the system prompt (the skill `code-review`), and every finding from what tools
have answered."""

import json
import re
from collections import Counter
from dataclasses import dataclass, field

READ_AT_ONCE = 24
"""How many files it reads in one turn."""
LEAST_CONFIDENCE = 80
SEVERITIES = ("critical", "important", "minor")


@dataclass
class Called:
    """A tool call of the conversation, with its answer."""

    tool: str
    input: dict
    answer: str
    failed: bool


@dataclass
class Conversation:
    """What a request tells the model, whatever its wire format."""

    system: str
    prompt: str
    called: list[Called]

    def of(self, tool, **wanted):
        """The calls of a tool with these values in their input."""
        return [call for call in self.called if call.tool == tool and wanted.items() <= call.input.items()]


@dataclass
class Turn:
    """What the model says: a text, or calls of tools as `(name, input)`."""

    text: str = ""
    calls: list[tuple[str, dict]] = field(default_factory=list)


@dataclass(frozen=True)
class Rule:
    """A line of the checklist."""

    severity: str
    name: str
    confidence: int
    pattern: str
    text: str


def answer(conversation):
    """The next turn of a conversation."""
    asked = dict(re.findall(r"(\w+)=(\S+)", conversation.prompt))
    for call in conversation.called:
        if call.failed:
            return Turn(f"I stopped, because {call.tool} {json.dumps(call.input)} failed: {call.answer}")
    if {"review", "slice", "paths"} <= asked.keys():
        return review(conversation, asked)
    if {"review", "slices"} <= asked.keys():
        return consolidate(conversation, asked)
    return Turn("I am a script. Ask me with review=ID slice=NAME paths=GLOBS, or with review=ID slices=NAMES.")


def review(conversation, asked):
    """A reviewer: names, matches, files, what it has used, the findings, one line."""
    name, globs = asked["slice"], [split(glob) for glob in asked["paths"].split(",")]
    rules = checklist(conversation.system)
    if not conversation.called:
        return Turn(calls=[("Glob", {"path": path, "pattern": pattern}) for path, pattern in globs])
    present, files = named(conversation.of("Glob"))
    if not conversation.of("Grep"):
        pattern = "|".join(rule.pattern for rule in rules)
        search = {"pattern": pattern, "output_mode": "content", "head_limit": 1000}
        return Turn(calls=[("Grep", {"path": path, "glob": glob, **search}) for path, glob in globs])
    read = {call.input["path"]: lines_of(call.answer) for call in conversation.of("Read")}
    unread = [file for file in files if file not in read]
    if unread:
        return Turn(calls=[("Read", {"path": file}) for file in unread[:READ_AT_ONCE]])
    if not conversation.of("Context"):
        return Turn(calls=[("Context", {"op": "self"})])
    findings = confirmed(rules, matches(conversation.of("Grep")), read)
    used = json.loads(conversation.of("Context")[0].answer)
    if not conversation.of("Memory"):
        value = {"slice": name, "files_present": present, "files_reviewed": sorted(read), "findings": findings}
        value |= {"usage": used["usage"], "cost": used["cost"]}
        entry = {"op": "set", "key": f"review/{asked['review']}/{name}/findings", "value": value}
        return Turn(calls=[("Memory", entry)])
    return Turn(f"{name}: {len(read)} of {present} files reviewed, {len(findings)} findings recorded")


def consolidate(conversation, asked):
    """The consolidator: every page of the findings, the time, the report."""
    prefix = f"review/{asked['review']}/"
    pages = [json.loads(call.answer) for call in conversation.of("Memory", op="list")]
    if not pages or pages[-1]["truncated"]:
        more = {"after": pages[-1]["next"]} if pages else {}
        return Turn(calls=[("Memory", {"op": "list", "prefix": prefix, "limit": 6, **more})])
    if not conversation.of("Context", op="time"):
        return Turn(calls=[("Context", {"op": "time"})])
    entries = [entry["value"] for page in pages for entry in page["entries"] if entry["key"].endswith("/findings")]
    time = json.loads(conversation.of("Context", op="time")[0].answer)["utc"]
    text = report(asked, asked["slices"].split(","), entries, time)
    if not conversation.of("Memory", op="set"):
        return Turn(calls=[("Memory", {"op": "set", "key": f"{prefix}report", "value": text})])
    return Turn(text)


def split(glob):
    """The directory that a glob begins with, and the rest of it."""
    parts = glob.split("/")
    plain = next((index for index, part in enumerate(parts[:-1]) if re.search(r"[*?\[{]", part)), len(parts) - 1)
    return "/".join(parts[:plain]) or ".", "/".join(parts[plain:])


def checklist(system):
    """The rules in the skill, which is part of the system prompt."""
    block = re.search(r"^```checklist\n(.*?)^```", system, re.DOTALL | re.MULTILINE)
    lines = block[1].splitlines() if block else []
    rules = [re.split(r"\s{2,}", line.strip(), maxsplit=4) for line in lines]
    return [Rule(severity, name, int(confidence), pattern, text) for severity, name, confidence, pattern, text in rules]


def named(globs):
    """How many files there are, and their names. `Glob` names the newest hundred and says how many there are."""
    files, unnamed = set(), 0
    for call in globs:
        lines = call.answer.splitlines()
        names = [line for line in lines if not line.startswith("[")]
        files.update(names)
        cut = re.search(r"^\[truncated: the newest (\d+) of (\d+) files", call.answer, re.MULTILINE)
        unnamed += int(cut[2]) - int(cut[1]) if cut else 0
    return len(files) + unnamed, sorted(files)


def matches(greps):
    """Where `Grep` found something, as `(file, line)`."""
    found = (re.match(r"(.+?):(\d+):", line) for call in greps for line in call.answer.splitlines())
    return sorted({(match[1], int(match[2])) for match in found if match})


def lines_of(text):
    """The lines of a file as `Read` shows them, by number."""
    return {int(number): line for number, line in re.findall(r"^ *(\d+)\t(.*)$", text, re.MULTILINE)}


def confirmed(rules, candidates, read):
    """The matches that hold in the file around them."""
    findings = []
    for file, number in candidates:
        lines = read.get(file, {})
        line, above = lines.get(number, ""), lines.get(number - 1, "")
        in_test = re.search(r"(^|/)tests(\.rs$|/)", file) or any(
            re.match(r"\s*mod \w*tests\b.*\{", lines[other]) for other in lines if other < number
        )
        if in_test or "//" in line or above.strip().startswith("//"):
            continue
        for rule in rules:
            if rule.confidence >= LEAST_CONFIDENCE and re.search(rule.pattern, line):
                finding = {"severity": rule.severity, "rule": rule.name, "file": file, "line": number}
                findings.append(finding | {"confidence": rule.confidence, "text": rule.text})
    return findings


def report(asked, slices, entries, time):
    """The report: what was looked at, what was found, what it cost."""
    entries = {entry["slice"]: entry for entry in entries}
    # A file of two slices counts once.
    reviewed = len({file for entry in entries.values() for file in entry["files_reviewed"]})
    present = reviewed + sum(entry["files_present"] - len(entry["files_reviewed"]) for entry in entries.values())
    merged = {}
    for name in slices:
        for finding in entries.get(name, {}).get("findings", []):
            place = (finding["file"], finding["line"], finding["rule"])
            merged.setdefault(place, (finding, []))[1].append(name)
    found = sum(len(names) for _, names in merged.values())
    counts = Counter(finding["severity"] for finding, _ in merged.values())
    missing = [name for name in slices if name not in entries]
    lines = [f"# Code review {asked['review']}", ""]
    lines += [
        f"- Slices: {len(slices) - len(missing)} of {len(slices)}"
        + (f"; nothing was recorded for {', '.join(missing)}" if missing else ""),
        f"- Files: {reviewed} of {present} reviewed",
        f"- Findings: {', '.join(f'{counts[severity]} {severity}' for severity in SEVERITIES)}",
        f"- Duplicates: {found - len(merged)} merged, of {found} findings recorded",
        f"- Cost: {cost(asked, entries.values())}",
        f"- Time: {time}",
        "",
        "| slice | files reviewed | findings |",
        "|---|---|---|",
    ]
    for name in slices:
        if entry := entries.get(name):
            lines.append(f"| {name} | {len(entry['files_reviewed'])} of {entry['files_present']} | {len(entry['findings'])} |")
    for severity in SEVERITIES:
        rules = {}
        for _, (finding, names) in sorted(merged.items()):
            if finding["severity"] == severity:
                rules.setdefault((finding["rule"], finding["text"]), []).append((finding, names))
        if rules:
            lines += ["", f"## {severity.capitalize()}"]
        for (rule, text), places in sorted(rules.items()):
            lines += ["", f"**{rule}**: {text}.", ""]
            for finding, names in places:
                by = f"; found by {' and '.join(names)}" if len(names) > 1 else ""
                lines.append(f"- `{finding['file']}:{finding['line']}` (confidence {finding['confidence']}{by})")
    return "\n".join(lines)


def cost(asked, entries):
    """What the reviewers cost, as the one who asks was told; without that, what they had used when they recorded."""
    tokens = sum(count for entry in entries for count in entry["usage"].values())
    money = sum(entry["cost"] or 0 for entry in entries)
    least = "" if "tokens" in asked else "at least "
    tokens, money = int(asked.get("tokens", tokens)), float(asked.get("cost", money))
    return f"{least}{tokens:,} tokens by {len(entries)} reviewers, {money:.2f} USD"
