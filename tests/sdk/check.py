"""The official SDKs against our fake servers. Every answer is validated strictly against the SDKs' own types."""

import collections.abc
import json
import sys
import warnings
from pathlib import Path

import anthropic
import openai
import pydantic
import typing_extensions
from openai.types.responses import response_create_params

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


def check_responses(url):
    """A loop with reasoning that the provider does not store: each item of an answer goes back as it came."""
    client = openai.OpenAI(api_key=KEY, base_url=url, max_retries=0)
    tools = [{"type": "function", "name": "Read", "description": "Read a file.", "parameters": SCHEMA, "strict": False}]
    base = {
        "model": "gpt-6-sol", "tools": tools, "store": False, "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    }  # fmt: skip
    items = [{"role": "user", "content": TOOL}]

    whole = strictly(client.responses.create(input=items, **base))
    expect([item.type for item in whole.output] == ["reasoning", "message", "function_call", "function_call"], whole)
    expect(whole.output_text == f"You said: {TOOL}" and whole.usage.output_tokens_details.reasoning_tokens > 0, whole)

    with client.responses.stream(input=items, **base) as stream:
        for event in stream:
            if type(event).__module__.startswith("openai.types"):
                strictly(event)
        final = stream.get_final_response()
    for event in client.responses.create(input=items, stream=True, **base):
        strictly(event)

    calls = [item for item in final.output if item.type == "function_call"]
    expect([call.arguments for call in calls] == ['{"path": "warp.md"}', '{"path": "weft.md"}'], calls)
    said = [item.to_dict(mode="json", exclude_unset=True) for item in whole.output]
    calls = [item for item in whole.output if item.type == "function_call"]
    results = [{"type": "function_call_output", "call_id": call.call_id, "output": call.name} for call in calls]
    for wrong, words in [
        (items + said + results[:1], "No tool output found for function call"),
        (items + said[1:] + results, "was provided without its required 'reasoning' item"),
        (items + said[:1] + [items[0]], "was provided without its required following item"),
    ]:
        expect_error(openai.BadRequestError, lambda wrong=wrong: client.responses.create(input=wrong, **base), words)
    last = strictly(client.responses.create(input=items + said + results, **base))
    expect(last.output_text == "It came to: Read / Read", last)


def closed(types):
    """Forbids fields that the types of a package do not know; that they are missing from a type says the SDK would not send them."""
    for name, module in list(sys.modules.items()):
        for kind in vars(module).values() if name.startswith(types) else []:
            if typing_extensions.is_typeddict(kind):
                kind.__pydantic_config__ = pydantic.ConfigDict(extra="forbid")


def exhaust(value):
    """Iterables of a type are validated while they are read."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, collections.abc.Iterable) and not isinstance(value, (str, bytes)):
        for one in value:
            exhaust(one)


def check_requests(directory):
    """Requests that our driver sends, as its tests keep them, against the SDK's types of requests."""
    global checked
    closed("openai.types")
    adapter = pydantic.TypeAdapter(response_create_params.ResponseCreateParamsStreaming)
    files = sorted(Path(directory).glob("it__requests__responses__*.snap"))
    expect(len(files) > 5, files)
    for file in files:
        body = json.loads(file.read_text().split("\n---\n", 1)[1])["body"]
        exhaust(adapter.validate_python(body))
        checked += 1
        for place in (body, body["input"][0], body["input"][-1]):
            place["unknown_field"] = 1
            try:
                exhaust(adapter.validate_python(body))
            except pydantic.ValidationError:
                del place["unknown_field"]
            else:
                sys.exit(f"{file.name}: an unknown field is accepted in {place}")


def main():
    print(f"anthropic {anthropic.__version__}, openai {openai.__version__}, pydantic {pydantic.VERSION}")
    check_anthropic(sys.argv[1])
    check_chat(sys.argv[2], "gpt-4.1", reasoning=False)
    check_chat(sys.argv[3], "deepseek-v4-pro", reasoning=True)
    check_responses(sys.argv[4])
    check_requests(sys.argv[5])
    print(f"{checked} answers, events and requests accepted by the SDKs' types")


main()
