"""OpenAI's Responses, streamed: what Codex speaks. MCP tools are in namespaces, and a call must name its own."""

import json

from .asked import Asked, text_of

PATH = "/v1/responses"


def read(body):
    asked = Asked(tools=[], model=body.get("model", ""))
    for tool in body.get("tools", []):
        if tool.get("type") == "namespace":
            asked.tools += [f"{tool['name']}::{inner['name']}" for inner in tool.get("tools", [])]
        else:
            asked.tools.append(tool.get("name", tool.get("type", "")))
    items = body.get("input", [])
    for item in items if isinstance(items, list) else []:
        if item.get("type") == "function_call_output":
            asked.results.append(text_of(item.get("output", "")))
        elif item.get("role") == "user":
            asked.prompt += text_of(item.get("content", ""))
    return asked


def events(number, model, text, call):
    """The stream's events of an answer: `text`, or a `call` of `(name, input)`."""
    response = {"id": f"resp_{number}", "object": "response", "model": model}
    if call:
        namespace, _, name = call[0].rpartition("::")
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
        item |= {"arguments": json.dumps(call[1]), **({"namespace": namespace} if namespace else {})}
    else:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}
    yield {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, **details}
    yield {
        "type": "response.completed",
        "response": {**response, "status": "completed", "output": [item], "usage": usage},
    }


def frames(number, model, text, call):
    for event in events(number, model, text, call):
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
