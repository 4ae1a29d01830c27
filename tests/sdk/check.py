"""The official SDKs against our fake servers. Every answer is validated strictly against the SDKs' own types."""

import sys
import warnings

import anthropic
import openai
import pydantic

KEY = "sdk-key"
TOOL = "call Read {\"path\": \"warp.md\"}\ncall Read {\"path\": \"weft.md\"}"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}

# The oldest model that thinks with a budget is about to retire; servers of its shape stay.
warnings.simplefilter("ignore", DeprecationWarning)

checked = 0


def strictly(value):
    """SDKs build their models without validation, so what they were given is validated here."""
    global checked
    given = value.to_dict(mode="json", exclude_unset=True)
    type(value).model_validate(given)
    checked += 1
    return value


def expect(condition, what):
    if not condition:
        sys.exit(f"not as it should be: {what}")


def expect_error(kind, call, words):
    try:
        call()
    except kind as error:
        expect(words in str(error), f"{error} does not say {words!r}")
        return error
    sys.exit(f"{kind.__name__} was expected")


def check_anthropic(url):
    client = anthropic.Anthropic(api_key=KEY, base_url=url, max_retries=0)
    tools = [{"name": "Read", "description": "Read a file.", "input_schema": SCHEMA}]
    for model, thinking in [
        ("claude-sonnet-4-5", {"type": "enabled", "budget_tokens": 2048}),
        ("claude-opus-5-5", {"type": "adaptive"}),
    ]:
        base = {"model": model, "max_tokens": 4096, "tools": tools, "thinking": thinking}
        messages = [{"role": "user", "content": TOOL}]

        whole = strictly(client.messages.create(messages=messages, **base))
        expect([b.type for b in whole.content] == ["thinking", "text", "tool_use", "tool_use"], whole)

        with client.messages.stream(messages=messages, **base) as stream:
            for event in stream:
                if type(event).__module__.startswith("anthropic.types"):
                    strictly(event)
            message = strictly(stream.get_final_message())
        expect(message.stop_reason == "tool_use", message.stop_reason)
        expect(message.usage.output_tokens > 0, message.usage)
        calls = [block for block in message.content if block.type == "tool_use"]
        expect([call.input for call in calls] == [{"path": "warp.md"}, {"path": "weft.md"}], calls)

        for event in client.messages.create(messages=messages, stream=True, **base):
            strictly(event)

        messages.append(message.to_param())
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": call.input["path"]} for call in calls]
        unanswered = messages + [{"role": "user", "content": results[:1]}]
        expect_error(
            anthropic.BadRequestError,
            lambda: client.messages.create(messages=unanswered, **base),
            "without `tool_result` blocks",
        )
        messages.append({"role": "user", "content": results})
        final = strictly(client.messages.create(messages=messages, **base))
        expect(final.content[-1].text == "It came to: warp.md / weft.md", final.content)

    for model in client.models.list():
        strictly(model)
    wrong = anthropic.Anthropic(api_key="wrong", base_url=url, max_retries=0)
    expect_error(
        anthropic.AuthenticationError,
        lambda: wrong.messages.create(model="claude-opus-5-5", max_tokens=1, messages=[{"role": "user", "content": "x"}]),
        "authentication_error",
    )


def check_chat(url, model, reasoning):
    client = openai.OpenAI(api_key=KEY, base_url=url, max_retries=0)
    tools = [{"type": "function", "function": {"name": "Read", "description": "Read a file.", "parameters": SCHEMA}}]
    messages = [{"role": "user", "content": TOOL}]
    base = {"model": model, "tools": tools}

    whole = strictly(client.chat.completions.create(messages=messages, **base))
    message = whole.choices[0].message
    expect(whole.choices[0].finish_reason == "tool_calls", whole)
    expect(len(message.tool_calls) == 2 and whole.usage.prompt_tokens > 0, whole)
    expect(bool(getattr(message, "reasoning_content", None)) == reasoning, message)

    usage, text = None, ""
    options = {"include_usage": True}
    for chunk in client.chat.completions.create(messages=messages, stream=True, stream_options=options, **base):
        strictly(chunk)
        usage = chunk.usage or usage
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    expect(usage is not None and usage.total_tokens > 0, usage)
    expect(text == f"You said: {TOOL}", text)

    said = message.to_dict()
    said.pop("refusal", None)
    messages.append(said)
    expect_error(
        openai.BadRequestError,
        lambda: client.chat.completions.create(messages=messages, **base),
        "did not have response messages",
    )
    if reasoning:
        forgetful = [messages[0], {key: value for key, value in said.items() if key != "reasoning_content"}]
        forgetful += [{"role": "tool", "tool_call_id": call.id, "content": "x"} for call in message.tool_calls]
        expect_error(
            openai.BadRequestError,
            lambda: client.chat.completions.create(messages=forgetful, **base),
            "reasoning_content in the thinking mode must be passed back",
        )
    messages += [{"role": "tool", "tool_call_id": call.id, "content": call.id} for call in message.tool_calls]
    final = strictly(client.chat.completions.create(messages=messages, **base))
    expect(final.choices[0].message.content.startswith("It came to: call_"), final)

    for listed in client.models.list():
        strictly(listed)
    wrong = openai.OpenAI(api_key="wrong", base_url=url, max_retries=0)
    error = expect_error(openai.AuthenticationError, lambda: wrong.models.list(), "invalid key")
    expect(error.code == "invalid_api_key", error)


def main():
    print(f"anthropic {anthropic.__version__}, openai {openai.__version__}, pydantic {pydantic.VERSION}")
    check_anthropic(sys.argv[1])
    check_chat(sys.argv[2], "gpt-4.1", reasoning=False)
    check_chat(sys.argv[3], "deepseek-v4-pro", reasoning=True)
    print(f"{checked} answers and events accepted by the SDKs' types")


main()
