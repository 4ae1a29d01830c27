"""The five cases, and five more that run only when named. Each says in a sentence what was seen, or raises `Failed`."""

import json
import re

from scripted.server import Call, Say
from tap import Tap
from told import value_in

TOOLS = ["spawn_run", "spawn_runs", "get_run", "list_runs", "cancel_run", "get_batch", "list_agents", "read_artifact"]
LIMIT = 4
"""The host's own limit of a call in the case `long`, in seconds."""
PATIENCE = 90
"""How long a step of a case may take, in seconds. Nothing waits so long unless something is wrong."""


class Failed(Exception):
    """A case did not go as it must."""


def check(holds, message):
    if not holds:
        raise Failed(message)


def threads(count):
    """The arguments of a `spawn_runs` of so many."""
    return {"spawns": [{"agent": "weaver", "prompt": f"thread {index}"} for index in range(count)]}


def woven(text, count):
    """How many of `count` results, each at its own index, are in what a host told its model."""
    value = value_in(text) or {}
    results = value.get("results") or []
    return sum(
        result.get("index") == index
        and result.get("status") == "completed"
        and result.get("final_text") == f"woven: thread {index}"
        for index, result in enumerate(results[:count])
    )


def check_runs(runs, count, status="completed"):
    """Each was started once, and ended so."""
    check(len(runs) == count, f"{len(runs)} runs were started, not {count}")
    seen = sorted({run["status"] for run in runs})
    check(seen == [status], f"the runs are {', '.join(seen)}, not {status}")


def recovering(count, gate):
    """A play that starts `count` runs, and when the call brings no results looks for them as a model would."""

    def play(results):
        if not results:
            return Call("spawn_runs", threads(count))
        if woven(results[-1], count) == count:
            return Say(f"All woven: {results[-1]}")
        gate.wait(PATIENCE)
        if len(results) == 1:
            handle = (value_in(results[0]) or {}).get("batch_id")
            return (
                Call("get_batch", {"batch_id": handle, "wait_ms": 3000})
                if handle
                else Call("list_runs", {"limit": count})
            )
        runs = (value_in(results[1]) or {}).get("runs") or [value_in(results[1]) or {}]
        batch = runs[0].get("batch_id")
        if batch is None or len(results) > 6:
            return Say(f"No results: {results[-1]}")
        return Call("get_batch", {"batch_id": batch, "wait_ms": 3000})

    return play


def list_tools(cell):
    """The tools are offered to the model."""
    model = cell.model(lambda results: Say("The tools are known."))
    model.open()
    cell.run_host()
    offered = [tool for tool in TOOLS if any(asked.offered(tool) for asked in model.conversation()[:1])]
    check(offered == TOOLS, f"of our tools the model was offered {offered}, among {model.tools()}")
    return f"{len(TOOLS)} tools offered to the model"


def ten(cell):
    """`spawn_runs` of ten: all results, each by its index, in the host's transcript."""
    model = cell.model(lambda results: Say(f"Report: {results[0]}") if results else Call("spawn_runs", threads(10)))
    model.open()
    cell.run_host()
    results = model.results()
    check(results, f"the model saw no result; the host said: {cell.last_words()}")
    check(woven(results[0], 10) == 10, f"{woven(results[0], 10)} of 10 results by index in: {results[0][:400]}")
    final = cell.host.final()
    check(all(f"woven: thread {index}" in final for index in range(10)), f"the host printed: {final[:400]}")
    check_runs(cell.loom.settled(5000), 10)
    return "10 of 10 results by index, and in the host's last words"


def long(cell):
    """A call longer than the client's own limit: the runs end all the same, and a second call finds the results."""
    return outlived(cell, LIMIT, wait=LIMIT * 2.5)


def default(cell):
    """A call of 70 s under the limits that the host has by itself."""
    return outlived(cell, None, wait=70)


def outlived(cell, limit, wait):
    model = cell.model(None)
    model.play = recovering(3, model.gate)
    cell.start_host(limit=limit)
    check(
        model.wait_for(lambda: len(set(model.agents_asked)) == 3, PATIENCE),
        f"no runs came; the host said: {cell.last_words()}",
    )
    answered = model.wait_for(lambda: model.results(), wait)
    told = model.results()[0] if answered else None
    states = sorted({run["status"] for run in cell.loom.runs()})
    check(
        not set(states) & {"cancelled", "failed", "timed_out"},
        f"after the host was told {told!r} the runs are {states}",
    )
    model.open()
    cell.finish_host()
    check_runs(cell.loom.settled(5000), 3)
    results = model.results()
    check(results and woven(results[-1], 3) == 3, f"the last the model saw: {(results or ['nothing'])[-1][:400]}")
    calls = len(results)
    if told is None:
        return f"the call was still waited for after {wait:g} s and brought 3 of 3 itself; started once"
    handle = (value_in(told) or {}).get("batch_id")
    how = "got the handle back in time" if handle else f"gave up (“{short(told)}”)"
    return f"the host {how}; the runs went on, started once; 3 of 3 results by call {calls}"


def cancelled(cell):
    """Its user stops the call."""
    model = cell.model(lambda results: Say("Stopped.") if results else Call("spawn_runs", threads(3)))
    cell.start_host(cancellable=True)
    check(
        model.wait_for(lambda: len(set(model.agents_asked)) == 3, PATIENCE),
        f"no runs came; the host said: {cell.last_words()}",
    )
    cell.host.cancel()
    runs = cell.loom.settled(5000 if cell.cancel_is_said else 1500)
    if cell.cancel_is_said:
        check_runs(runs, 3, "cancelled")
        seen = "the host said so (notifications/cancelled), and all 3 runs were cancelled"
    else:
        ended = [run["status"] for run in runs if run["status"] in ("completed", "cancelled", "failed", "timed_out")]
        check(not ended, f"nobody said cancel, and yet runs are {ended}")
        model.open()
        check_runs(cell.loom.settled(10000), 3)
        seen = cell.unsaid
    cell.host.leave()
    cell.finish_host()
    return seen


def restart(cell):
    """The server is killed in the middle of a `spawn_runs` of ten, and started again."""
    model = cell.model(None)
    model.play = recovering(10, model.gate)
    cell.start_host()
    check(
        model.wait_for(lambda: len(set(model.agents_asked)) == 4, PATIENCE),
        f"no runs came; the host said: {cell.last_words()}",
    )
    # Four at once: when the seventh asks, three have ended, four are under way and three wait.
    model.let_through(3)
    check(
        model.wait_for(lambda: len(set(model.agents_asked)) == 7, PATIENCE), f"runs stand still: {model.agents_asked}"
    )
    runs = cell.loom.settled(300)
    ended = sum(run["status"] == "completed" for run in runs)
    check((len(runs), ended) == (10, 3), f"before the crash there are {len(runs)} runs, {ended} of them completed")
    before = {run["run_id"] for run in runs}
    cell.crash_and_restart()
    model.open()
    cell.finish_host()
    runs = cell.loom.settled(20000)
    check_runs(runs, 10)
    check({run["run_id"] for run in runs} == before, "the runs are others than before the crash")
    results = model.results()
    check(results and woven(results[-1], 10) == 10, f"the last the model saw: {(results or ['nothing'])[-1][:400]}")
    if len(results) == 1:
        return "the call itself brought 10 of 10 results; started once"
    return f"the call broke off (“{short(results[0])}”); 10 of 10 results by call {len(results)}; started once"


CANARY = "canary-5e81d07b"
"""What is in every file that the agents read, and must not reach the host."""


def read_and_count(asked):
    """An agent's model: reads the file that it was told, then says how long it is; with the word `echo`, what is in it."""
    path = asked.prompt.split()[-1]
    if not asked.results:
        return "", (asked.offered("Read"), {"path": path, "bytes": True})
    text = asked.results[-1]
    return (text if "echo" in asked.prompt else f"{path}: {len(text.splitlines())} lines"), None


def canary(cell):
    """Ten agents read files with a canary in them: their journals have it, the connection to the host has not. A control
    whose child says what it read is caught."""
    check(cell.transport != "stdio", "the tap stands on HTTP: use thin or http")
    quiet = {"spawns": [{"agent": "reader", "prompt": f"count slice{index}.txt"} for index in range(10)]}
    control = {"spawns": [{"agent": "reader", "prompt": "echo slice3.txt"}]}
    seen = {}

    def play(results):
        if not results:
            return Call("spawn_runs", quiet)
        if len(results) == 1:
            seen.setdefault("quiet", cell.loom.tap.bytes())
            return Call("spawn_runs", control)
        return Say(f"Report: {results[0]}")

    model = cell.model(play)
    model.agent = read_and_count
    for index in range(10):
        (cell.loom.slices / f"slice{index}.txt").write_text("a line\n" * (index + 1) + f"{CANARY}\n")
    cell.loom.tap = Tap(cell.loom.url)
    model.open()
    cell.run_host()
    cell.loom.tap.close()
    results = model.results()
    check(len(results) == 2, f"the model saw {len(results)} results; the host said: {cell.last_words()}")
    found = (value_in(results[0]) or {}).get("results") or []
    wanted = [f"slice{index}.txt: {index + 2} lines" for index in range(10)]
    check([result.get("final_text") for result in found] == wanted, f"not 10 of 10 by index: {results[0][:400]}")
    final = cell.host.final()
    check(all(text in final for text in wanted), f"the host printed: {final[:400]}")
    journals = [
        cell.loom.ask(f"/v1/runs/{result['run_id']}/artifact?name=journal&max_bytes=262144")["text"] for result in found
    ]
    check(all(CANARY in journal for journal in journals), "a journal lacks what its agent read")
    times = [(run["timings"]["started_at"], run["timings"]["ended_at"]) for run in cell.loom.runs()]
    most = max(sum(began <= at < ended for began, ended in times) for at, _ in times)
    check(most <= 4, f"{most} runs were at work at once")
    check(CANARY.encode() not in seen["quiet"], "the canary is on the connection")
    check(b"slice9.txt: 11 lines" in seen["quiet"], "the tap does not see the connection")
    check(CANARY.encode() in cell.loom.tap.bytes(), "the control was not caught")
    size = len(seen["quiet"])
    return f"10 of 10 by index, at most {most} at once; the canary in 10 journals and not in {size} bytes; the control was caught"


LIST_BYTES = 12_000
"""Most bytes of the answer to `tools/list`, as sent."""
TEN_BYTES = 3_000
"""Most bytes that a host's model gets of a `spawn_runs` of ten one-line answers."""


def context(cell):
    """What we cost a host's model: the list of tools, and ten answers."""
    model = cell.model(lambda results: Say("Woven.") if results else Call("spawn_runs", threads(10)))
    model.open()
    cell.run_host()
    results = model.results()
    check(results, f"the model saw no result; the host said: {cell.last_words()}")
    check(woven(results[0], 10) == 10, f"{woven(results[0], 10)} of 10 results by index in: {results[0][:400]}")
    listed = len(cell.loom.list_tools())
    requests = [json.loads(line)["body"] for line in (cell.home / "model.jsonl").read_text().splitlines()]
    offered = max(bytes_of_tools(request.get("tools")) for request in requests)
    answers = len(results[0].encode())
    check(listed < LIST_BYTES, f"tools/list has {listed} bytes")
    check(answers < TEN_BYTES, f"ten answers have {answers} bytes")
    return f"tools/list {listed} bytes as sent, {offered} as the host tells its model; ten one-line answers {answers} bytes"


def bytes_of_tools(value):
    """Bytes of what is said of our tools, wherever it stands in a request."""
    if isinstance(value, list):
        return sum(bytes_of_tools(one) for one in value)
    if not isinstance(value, dict):
        return 0
    name = value.get("name")
    if isinstance(name, str) and name.endswith(tuple(TOOLS)):
        return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
    return sum(bytes_of_tools(one) for one in value.values())


def install(cell):
    """The host's settings are those that `drawloom mcp install --write` made."""
    model = cell.model(lambda results: Say(f"Agents: {results[0]}") if results else Call("list_agents"))
    model.open()
    cell.start_host(install=("--write", "--yes"))
    cell.finish_host()
    check(
        model.results(), f"the model saw no result, of these tools: {model.tools()}; the host said: {cell.last_words()}"
    )
    agents = [agent["name"] for agent in (value_in(model.results()[0]) or {}).get("agents", [])]
    check(agents == ["reader", "weaver"], f"the model was told: {model.results()[0][:400]}")
    return "connected by `drawloom mcp install --write`; the agents were listed"


def plugin(cell):
    """The host loads the folder that `drawloom mcp install --plugin` wrote: it is valid, its skill is offered, both commands work
    and may use the tools that they name without asking, and no other."""
    model = cell.model(lambda results: Say("Reviewed.") if results else Call("list_agents"))
    model.open()
    cell.start_host(install=["--plugin"], prompt="/drawloom:review the loom")
    cell.finish_host()
    folder = cell.host.connection.plugin
    is_valid, words = cell.host.validate(folder)
    check(is_valid, f"the host refuses the plugin: {words[-400:]}")
    asked = model.conversation()[:1]
    check(asked and "The request: the loom" in asked[0].prompt, f"no /drawloom:review; the host said: {cell.last_words()}")
    offered = [tool for tool in TOOLS if asked[0].offered(tool)]
    check(offered == TOOLS, f"of our tools the model was offered {offered}, among {model.tools()}")
    check("drawloom:delegate" in (cell.home / "model.jsonl").read_text(), "the skill is not offered to the model")
    agents = [agent["name"] for agent in (value_in("".join(model.results())) or {}).get("agents", [])]
    check(agents == ["reader", "weaver"], f"the model was told: {model.results()}")

    model.requests.clear()
    steps = [Call("spawn_runs", threads(3)), Call("cancel_run", {"run_id": "r_" + "0" * 32})]
    model.play = lambda results: steps[len(results)] if len(results) < len(steps) else Say(f"Report: {results[0]}")
    cell.start_host(install=["--plugin"], prompt="/drawloom:fanout three threads")
    cell.finish_host()
    check("agents: three threads" in model.conversation()[0].prompt, f"no /drawloom:fanout: {cell.last_words()}")
    results = model.results()
    check(len(results) == 2, f"the model saw {len(results)} results; the host said: {cell.last_words()}")
    check(woven(results[0], 3) == 3, f"{woven(results[0], 3)} of 3 results by index in: {results[0][:400]}")
    denials = json.loads(cell.host.output().strip().splitlines()[-1])["permission_denials"]
    denied = [denial["tool_name"].rpartition("__")[2] for denial in denials]
    check(denied == ["cancel_run"], f"denied were {denied}, and the model was told: {results[1][:400]}")
    check_runs(cell.loom.settled(5000), 3)
    return "the plugin is valid and its skill is offered; both commands ran with their tools, and cancel_run, which they do not name, was denied"


def short(text):
    """What a tool's result says, in a line; Codex puts the time it took before it."""
    text = re.sub(r"^Wall time: \S+ seconds Output: ", "", " ".join(text.split()))
    return text if len(text) <= 160 else f"{text[:160]}…"


CASES = {
    "list": list_tools,
    "ten": ten,
    "long": long,
    "cancelled": cancelled,
    "restart": restart,
    "canary": canary,
    "context": context,
    "install": install,
    "plugin": plugin,
    "default": default,
}
