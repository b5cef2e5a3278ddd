"""The official Python clients, of either major version, with their own authorization flow, for `it/mcp_oauth.rs`.

    python oauth.py URL TOKEN|- [TOOL]

Registers at the provider that the endpoint names, logs in through its pages, lists tools and prints what came as JSON.
With TOKEN it is the client `web` that has logged in before; the TOOL that it then calls may need more than the token holds.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from version import pick

URL, TOKEN = sys.argv[1:3]
TOOL = (sys.argv[3:] or [None])[0]
CALLBACK = "http://127.0.0.1:9999/cb"
METADATA = {
    "client_name": "tests",
    "redirect_uris": [CALLBACK],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}


class Login:
    """What an application with the SDK keeps of a login, and the person at its browser."""

    def __init__(self):
        self.tokens = self.client = self.address = None
        if TOKEN != "-":
            self.tokens = OAuthToken(access_token=TOKEN, token_type="Bearer")
            self.client = OAuthClientInformationFull(client_id="web", **METADATA)

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client

    async def go(self, address):
        self.address = address

    def come_back(self):
        script = Path(__file__).parent.parent / "oauth.mjs"
        printed = subprocess.run(["node", script, "consent", self.address], check=True, capture_output=True).stdout
        return {name: values[0] for name, values in parse_qs(urlsplit(json.loads(printed)).query).items()}

    async def come_back_to_the_first(self):
        back = self.come_back()
        return back["code"], back.get("state")

    async def come_back_to_the_second(self):
        from mcp.client.auth import AuthorizationCodeResult

        return AuthorizationCodeResult(**self.come_back())


async def use(client, listed):
    called = await client.call_tool(TOOL, {}) if TOOL else None
    return {
        "tools": [tool.name for tool in listed.tools],
        "called": called and called.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


async def first(login):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    auth = OAuthClientProvider(URL, OAuthClientMetadata(**METADATA), login, login.go, login.come_back_to_the_first)
    async with streamablehttp_client(URL, auth=auth) as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        return await use(session, await session.list_tools())


async def second(login):
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    auth = OAuthClientProvider(URL, OAuthClientMetadata(**METADATA), login, login.go, login.come_back_to_the_second)
    async with httpx2.AsyncClient(auth=auth, timeout=60) as http:
        async with Client(streamable_http_client(URL, http_client=http)) as client:
            return await use(client, await client.list_tools())


def main():
    connect = pick(first, second)
    login = Login()
    answer = asyncio.run(connect(login))
    asked = login.address and {name: values[0] for name, values in parse_qs(urlsplit(login.address).query).items()}
    print(json.dumps({**answer, "asked": asked, "registered": login.client.client_id, "granted": login.tokens.scope}))


main()
