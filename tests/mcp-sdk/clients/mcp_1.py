"""The Python SDK 1.x."""

import anyio
import httpx
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from steps import TARGET, steps, texts


async def talk(read, write):
    async with ClientSession(read, write) as session:
        hello = await session.initialize()

        async def call(tool, arguments):
            result = await session.call_tool(tool, arguments)
            return result.isError, texts(result.content), result.structuredContent

        tools = [tool.name for tool in (await session.list_tools()).tools]
        await steps(tools, call, hello.protocolVersion)


async def main():
    if "url" in TARGET:
        headers = {"Authorization": f"Bearer {TARGET['token']}"}
        async with httpx.AsyncClient(headers=headers, timeout=60) as http:
            async with streamable_http_client(TARGET["url"], http_client=http) as (read, write, _):
                await talk(read, write)
    else:
        command, *arguments = TARGET["command"]
        parameters = StdioServerParameters(command=command, args=arguments, env=TARGET["env"])
        async with stdio_client(parameters) as (read, write):
            await talk(read, write)


anyio.run(main)
