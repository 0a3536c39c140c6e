"""Uses a server as an agent built on the Python SDK does, and prints what it saw as JSON.

Takes one argument, a JSON object: `mode`, and either `command` with `args` and `cwd`, or `url` with `token`.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def server(setup):
    if "url" in setup:
        headers = {"Authorization": f"Bearer {setup['token']}"}
        return streamable_http_client(setup["url"], http_client=httpx2.AsyncClient(headers=headers))
    return StdioServerParameters(
        command=setup["command"], args=setup["args"], cwd=setup["cwd"], env=setup["env"]
    )


async def main():
    setup = json.loads(sys.argv[1])
    seen = {}
    async with Client(server(setup), mode=setup["mode"]) as client:
        seen["version"] = client.protocol_version
        listed = await client.list_tools()
        seen["tools"] = [tool.name for tool in listed.tools]
        read = await client.call_tool("read", {"path": "a.txt"})
        seen["read"] = read.content[0].text
        seen["structured"] = read.structured_content is not None
        missing = await client.call_tool("read", {"path": "missing.txt"})
        seen["missing"] = missing.is_error
        long = await client.call_tool("bash", {"command": "seq 1 40000"})
        links = [block for block in long.content if block.type == "resource_link"]
        page = await client.read_resource(str(links[0].uri))
        seen["page"] = page.contents[0].text[:8]
        templates = await client.list_resource_templates()
        seen["templates"] = [str(it.uri_template) for it in templates.resource_templates]
    print(json.dumps(seen))


asyncio.run(asyncio.wait_for(main(), 50))
