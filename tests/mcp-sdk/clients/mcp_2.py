"""The Python SDK 2.x, in either era."""

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from steps import MODE, TARGET, steps, texts


async def talk(server):
    async with Client(server, mode=MODE) as client:

        async def call(tool, arguments):
            result = await client.call_tool(tool, arguments)
            return result.is_error, texts(result.content), result.structured_content

        tools = [tool.name for tool in (await client.list_tools()).tools]
        await steps(tools, call, client.protocol_version)


async def main():
    if "url" in TARGET:
        headers = {"Authorization": f"Bearer {TARGET['token']}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            await talk(streamable_http_client(TARGET["url"], http_client=http))
    else:
        command, *arguments = TARGET["command"]
        await talk(StdioServerParameters(command=command, args=arguments, env=TARGET["env"]))


anyio.run(main)
