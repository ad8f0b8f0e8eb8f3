"""Lists the tools of an MCP server and calls some, with the official client for Python.

usage: client.py MODE CALLS COMMAND [ARG]...

MODE is `legacy` or a protocol version, CALLS a JSON array of [tool, arguments]. Prints one JSON object with
what the client made of it.
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters


async def main(mode, calls, command, args):
    server = StdioServerParameters(command=command, args=args, env=dict(os.environ))
    async with Client(server, mode=mode) as client:
        listed = await client.list_tools()
        out = {
            "protocolVersion": client.protocol_version,
            "tools": [dump(tool) for tool in listed.tools],
            "calls": [],
        }
        for tool, arguments in calls:
            out["calls"].append(dump(await client.call_tool(tool, arguments)))
    print(json.dumps(out))


def dump(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], sys.argv[4:]))
