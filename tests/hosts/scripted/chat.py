"""OpenAI's chat completions, streamed: what opencode speaks, and our own agents."""

import json

from .asked import Asked, text_of

PATH = "/v1/chat/completions"


def read(body):
    asked = Asked(tools=[tool["function"]["name"] for tool in body.get("tools", [])], model=body.get("model", ""))
    for message in body.get("messages", []):
        if message.get("role") == "tool":
            asked.results.append(text_of(message.get("content", "")))
        elif message.get("role") == "user":
            asked.prompt += text_of(message.get("content", ""))
    return asked


def frames(number, model, text, call):
    chunk = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 0, "model": model}

    def piece(delta, reason=None, **more):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return f"data: {json.dumps({**chunk, 'choices': [choice], **more})}\n\n"

    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        calls = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
        yield piece({"role": "assistant", "content": None, "tool_calls": calls})
    else:
        yield piece({"role": "assistant", "content": text})
    yield piece({}, "tool_calls" if call else "stop")
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    yield f"data: {json.dumps({**chunk, 'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"
