"""What `./prove review` shows: whatever happens to the server and to the providers, the report is the same apart from cost and time.
It is compared with the report that is made from the files themselves. `PROVE_SEED` and `PROVE_KILLS` choose the kills."""

import argparse
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

from provider import Anthropic, Deepseek
from review import Failed, Review, check, checkout, compare, expected, slices, try_comparison

LAYER = """\
providers:
  anthropic: {{ base_url: "http://127.0.0.1:{anthropic}" }}
  deepseek: {{ base_url: "http://127.0.0.1:{deepseek}" }}
agents:
  code-reviewer: {{ effort: high }}
  review-consolidator: {{ effort: high }}
"""


CALLS = 60
"""Model calls that a review makes at least; the cut does not count them first."""


class Keyed(Review):
    """A review with the providers of the example's own config, at other addresses."""

    def environment(self):
        return super().environment() | {"ANTHROPIC_API_KEY": "fake-anthropic", "DEEPSEEK_API_KEY": "fake-deepseek"}


class Case:
    """One review with providers of its own. Afterwards its report was compared, and its runs and entries counted."""

    def __init__(self, options, name, anthropic=None, deepseek=None):
        self.anthropic, self.deepseek = anthropic or Anthropic(), deepseek or Deepseek()
        self.review = Keyed(options.drawloom, options.work / name, options.tree)
        self.review.layer(LAYER.format(anthropic=self.anthropic.port, deepseek=self.deepseek.port))
        self.name, self.tree = name, options.tree

    def run(self):
        started = time.monotonic()
        try:
            text = self.review.run(self.name)
            compare(text, expected(self.tree, self.name))
            self.review.check_once(self.name)
            self.runs = self.review.runs()
            ended = [run["status"] for run in self.runs]
            check(ended == ["completed"] * (len(slices()) + 1), f"the runs are {ended}")
            for provider in (self.anthropic, self.deepseek):
                check(not provider.rejected, f"{type(provider).__name__} rejected: {provider.rejected[:3]}")
        finally:
            self.review.close()
            self.anthropic.close()
            self.deepseek.close()
        print(f"{self.name}: {time.monotonic() - started:.1f} s", flush=True)
        return text


def try_strictness():
    """The strict providers must reject what the real ones reject, else a fallback to them shows nothing."""
    tools = [{"type": "function", "function": {"name": "Read", "arguments": "{}"}, "id": "toolu_0_0"}]
    turn = {"role": "assistant", "content": "", "tool_calls": tools}
    results = [{"role": "tool", "tool_call_id": "toolu_0_0", "content": "x"}]
    lacking = {"model": "deepseek-reasoner", "messages": [{"role": "user", "content": "x"}, turn, *results]}
    foreign = {**lacking, "messages": [lacking["messages"][0], {**turn, "reasoning_content": "Another's thought."}, *results]}
    block = {"type": "thinking", "thinking": "Another's thought.", "signature": "another's"}
    blocks = [{"role": "user", "content": "x"}, {"role": "assistant", "content": [block, {"type": "text", "text": "x"}]}]
    unsigned = {"model": "claude-sonnet-4-5", "messages": [*blocks, {"role": "user", "content": "x"}]}
    for kind, path, body in (
        (Deepseek, "/chat/completions", lacking),
        (Deepseek, "/chat/completions", foreign),
        (Anthropic, "/v1/messages", unsigned),
    ):
        provider = kind()
        status, _, text = provider.answer(path, body)
        provider.close()
        check(status == 400, f"{kind.__name__} took what it must reject: {text}")


def say(text):
    print(f"prove: {text}", flush=True)


def plain(options):
    case = Case(options, "plain")
    text = case.run()
    try_comparison(text)
    try_strictness()
    check(case.anthropic.thought == case.anthropic.answered, "the model does not think: its thoughts are not tried")
    check(case.deepseek.asked == 0, "the second provider was asked, although the first did not fail")
    head = "; ".join(line.removeprefix("- ") for line in text.splitlines()[2:6])
    say(f"undisturbed: {head}; {case.anthropic.asked} model calls")
    say("controls: the comparison notices a lost finding and a doubled one; the strict providers reject missing and foreign reasoning")
    return case.anthropic.asked


def killed(options, calls):
    """The server is killed while a call of its choice by chance waits for an answer; the command that waits starts another one."""
    dice = random.Random(options.seed)
    moments = sorted(dice.sample(range(1, calls + 1), min(options.kills, calls)))
    for moment in moments:
        pause, done = dice.uniform(0, 0.08), []
        case = Case(options, f"killed-{moment}")

        def kill(number, case=case, moment=moment, pause=pause, done=done):
            if number == moment:
                threading.Event().wait(pause)
                if server := case.review.server():
                    os.kill(server, signal.SIGKILL)
                    done.append(server)

        case.anthropic.on_call = kill
        case.run()
        check(len(done) == 1, f"no server was killed at call {moment}")
    say(f"reviews whose server was killed once: {len(moments)}, at model calls {', '.join(map(str, moments))}: the same report each time")


def killed_again(options, calls):
    """One review whose server is killed again and again."""
    dice = random.Random(options.seed + 1)
    moments = set(dice.sample(range(1, calls + 1), min(options.kills, calls)))
    case, killed = Case(options, "killed-again"), set()

    def kill(number):
        if number in moments and (server := case.review.server()) not in killed | {None}:
            killed.add(server)
            os.kill(server, signal.SIGKILL)

    case.anthropic.on_call = kill
    case.run()
    check(killed, "no server was killed")
    say(f"the server was killed {len(killed)} times in one review: the same report")


def throttled(options):
    case = Case(options, "throttled", Anthropic(limit=2, delay=0.05))
    case.run()
    check(case.anthropic.throttled > 0, "no call was throttled: the limit was not tried")
    check(case.deepseek.asked > 0 or case.anthropic.answered > 0, "nothing was answered")
    provider, other = case.anthropic, case.deepseek
    say(
        f"429 whenever more than two calls are in flight, with fallback: {provider.throttled} of {provider.asked} calls were throttled, "
        f"{other.asked} went to the second provider: the same report"
    )
    alone = Case(options, "throttled-alone", Anthropic(limit=2, delay=0.05), Deepseek())
    alone.review.layer(alone.review.model.read_text() + ALONE)
    alone.run()
    check(alone.anthropic.throttled > 0, "no call was throttled: the limit was not tried")
    check(alone.deepseek.asked == 0, "the second provider was asked, although there is no fallback")
    say(
        f"429 whenever more than two calls are in flight, without fallback: {alone.anthropic.throttled} of {alone.anthropic.asked} calls "
        f"were throttled: the same report"
    )


ALONE = """\
tiers:
  middle: [{ provider: anthropic, model: claude-sonnet-4-5 }]
"""


def fallen_back(options, calls, hangs_up=False):
    name = "hung-up" if hangs_up else "fallback"
    case = Case(options, name, Anthropic(fails_from=calls // 2, hangs_up=hangs_up))
    case.run()
    first, second = case.anthropic, case.deepseek
    check(first.answered > 0 and first.failed > 0, "the first provider did not fail in the middle")
    check(second.carried > 0, "no conversation went on at the second provider")
    check(second.thought > 0, "the second provider's model never thinks: its reasoning is not tried")
    ended = sum(run["provider"] == "deepseek" for run in case.runs)
    say(
        f"the first provider breaks off at call {first.fails_from} and {'hangs up' if hangs_up else 'is overloaded'} from then on "
        f"({first.failed} calls failed): {ended} of "
        f"{len(case.runs)} runs ended at the strict second one, which took {second.answered} calls, {second.carried} of them with turns of "
        f"the first, and rejected none: the same report"
    )


def main():
    parser = argparse.ArgumentParser(prog="./prove review", description=__doc__)
    for name in ("--drawloom", "--work"):
        parser.add_argument(name, type=lambda path: Path(path).resolve(), required=True)
    parser.add_argument("--kills", type=int, default=int(os.environ.get("PROVE_KILLS", "20")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("PROVE_SEED", "14")))
    parser.add_argument("--cut", action="store_true", help="only one kill and the fallback, as ./test does")
    options = parser.parse_args()
    options.tree = checkout(options.work / "checkout")
    started = time.monotonic()
    try:
        if options.cut:
            options.kills = 1
            killed(options, CALLS)
            fallen_back(options, CALLS)
            return 0
        calls = plain(options)
        killed(options, calls)
        killed_again(options, calls)
        throttled(options)
        fallen_back(options, calls)
        fallen_back(options, calls, hangs_up=True)
    except Failed as failed:
        say(f"FAILED: {failed}")
        return 1
    print(f"{time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
