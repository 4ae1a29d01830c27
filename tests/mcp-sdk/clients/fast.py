"""fastmcp, in either era."""

import asyncio

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from steps import MODE, TARGET, steps, texts


async def main():
    if "url" in TARGET:
        transport = StreamableHttpTransport(TARGET["url"], auth=TARGET["token"])
    else:
        command, *arguments = TARGET["command"]
        transport = StdioTransport(command, arguments, env=TARGET["env"])
    async with Client(transport, mode=MODE) as client:

        async def call(tool, arguments):
            result = await client.call_tool(tool, arguments, raise_on_error=False)
            return result.is_error, texts(result.content), result.structured_content

        await steps([tool.name for tool in await client.list_tools()], call, client.protocol_version)


asyncio.run(main())
