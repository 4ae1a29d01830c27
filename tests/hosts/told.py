"""What a host told its model of our answers, read back: the texts that `crates/server/src/lean/text.rs` writes."""

import re

RUN = r"r_[0-9a-f]{32}"
BATCH = r"b_[0-9a-f]{32}"
RESULT = re.compile(rf"^=== result (\d+): (\S+) (\w+)[^\n]*; run_id ({RUN})$", re.M)
OF_BATCH = re.compile(rf"^=== batch (\w+): [^\n]*; batch_id ({BATCH})$", re.M)
OF_RUN = re.compile(rf"^=== run (\w+)[^\n]*; run_id ({RUN})$", re.M)
ROW = re.compile(rf"^({RUN}) (\S+) (\w+)[^\n]*?(?:, ({BATCH})\[(\d+)\][^\n]*)?$", re.M)
SPENT = re.compile(r"; ([\d,]+) tokens[^;]*(?:; ~?[^\d;]?([\d.]+)[^;\n]*)?;")
AGENT = re.compile(r"^(\S+): [^\n]* \(model [^\n]*\)$", re.M)


WARNINGS = re.compile(r"(\A|\n+)(warning: [^\n]*\n*)+\Z")


def said(text):
    """What a run said, without the warnings that stand after it."""
    return WARNINGS.sub("", text.strip()).strip()


def spent(line):
    """Tokens and money that a last line tells of."""
    found = SPENT.search(line)
    return {"tokens": int(found[1].replace(",", "")), "cost": float(found[2] or 0)} if found else {}


def value_in(text):
    """A batch, a run, a list of runs or one of agents, with the names that REST has; `None` when there is none of them."""
    # Codex puts the time that the call took before it.
    text = re.sub(r"\AWall time: \S+ seconds\nOutput:\n", "", text)
    batch, heads = OF_BATCH.search(text), list(RESULT.finditer(text))
    if batch:
        ends = [head.start() for head in heads[1:]] + [batch.start()]
        return {
            "batch_id": batch[2],
            "status": batch[1],
            **spent(batch[0]),
            "results": [
                {
                    "index": int(head[1]),
                    "agent": head[2],
                    "status": head[3],
                    "run_id": head[4],
                    "final_text": said(text[head.end() : end]),
                }
                for head, end in zip(heads, ends)
            ],
        }
    if run := OF_RUN.search(text):
        return {"run_id": run[2], "status": run[1], **spent(run[0]), "final_text": said(text[: run.start()])}
    if rows := list(ROW.finditer(text)):
        return {"runs": [{"run_id": row[1], "agent": row[2], "status": row[3], "batch_id": row[4]} for row in rows]}
    if agents := AGENT.findall(text):
        return {"agents": [{"name": name} for name in agents]}
    return None
