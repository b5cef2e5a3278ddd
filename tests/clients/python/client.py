"""The official Python clients, of either major version, for `it/mcp_python.rs` and `it/mcp_starts.rs`.

    CARDINAL_API_KEY=mpk_... python client.py URL [MODE [TIMES]]

Lists tools, calls some, and prints what came as JSON. MODE is that of the second version: auto, legacy. With TIMES it
connects, lists and closes so many times instead.
"""

import asyncio
import json
import os
import sys

from version import pick

URL, MODE = sys.argv[1], (sys.argv[2:] or ["auto"])[0]
TIMES = int((sys.argv[3:] or ["0"])[0])
HEADERS = {"Authorization": "Bearer " + os.environ["CARDINAL_API_KEY"]}
TOOL = "plugin_conformance_test_%s"


async def walk(client, listed):
    progress = []

    async def heard(done, total, message):
        progress.append([done, total, message])

    async def call(name, arguments=None, **more):
        result = await client.call_tool(name, arguments or {}, **more)
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    answer = {"tools": [tool.name for tool in listed.tools]}
    answer["reported"] = await call(TOOL % "tool_with_progress", progress_callback=heard)
    answer["progress"] = progress
    answer["image"] = await call(TOOL % "image_content")
    answer["header"] = await call(TOOL % "custom_header", {"region": "Köln"})
    answer["wrong"] = await call(TOOL % "custom_header", {"region": 7})
    try:
        answer["unknown"] = await call("plugin_conformance_nothing")
    except Exception as error:  # each version has an error of its own
        answer["unknown"] = {"error": str(error)}
    return answer


async def first(use):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async with streamablehttp_client(URL, headers=HEADERS) as (read, write, _), ClientSession(read, write) as session:
        begun = await session.initialize()
        return begun.protocolVersion, await use(session, await session.list_tools())


async def second(use):
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(headers=HEADERS, timeout=60) as http:
        async with Client(streamable_http_client(URL, http_client=http), mode=MODE) as client:
            return client.protocol_version, await use(client, await client.list_tools())


async def count(_, listed):
    return len(listed.tools)


async def again(connect):
    """One client after another, as scripts start and stop."""
    for _ in range(TIMES):
        revision, tools = await connect(count)
    return revision, {"runs": TIMES, "tools": tools}


def main():
    connect = pick(first, second)
    revision, answer = asyncio.run(again(connect) if TIMES else connect(walk))
    print(json.dumps({"revision": revision, **answer}))


main()
