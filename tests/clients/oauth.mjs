// OAuth clients on the command line.
//   node oauth.mjs code ISSUER RESOURCE SCOPES LOGIN   authorization code with PKCE, by hand; prints the token answer
//   node oauth.mjs mcp|mcp2 URL [TOKEN TOOL]           the official MCP client's whole flow, of either major version: the
//                                                      challenge, the metadata, its own registration, the code,
//                                                      tools/list. With TOKEN it is the client `web` that has logged in
//                                                      before, and calls TOOL, which may need more than TOKEN holds
//   node oauth.mjs consent ADDRESS                     a person who consents to everything; prints the callback's address
import { createHash, randomBytes } from "node:crypto";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as second from "@modelcontextprotocol/client";
import { CALLBACK, consent } from "./consent.mjs";

async function code(issuer, resource, scope, login) {
  const verifier = randomBytes(32).toString("base64url");
  const start = new URL("/auth", issuer);
  start.search = new URLSearchParams({
    response_type: "code", client_id: "web", redirect_uri: CALLBACK, resource, scope: `openid ${scope}`,
    code_challenge: createHash("sha256").update(verifier).digest("base64url"), code_challenge_method: "S256",
  });
  const callback = await consent(start, login);
  const answer = await fetch(new URL("/token", issuer), {
    method: "POST",
    body: new URLSearchParams({
      grant_type: "authorization_code", client_id: "web", redirect_uri: CALLBACK, resource, code_verifier: verifier,
      code: callback.searchParams.get("code"),
    }),
  });
  return answer.json();
}

// What an application with the SDK keeps of a login.
class Login {
  redirectUrl = CALLBACK;
  clientMetadata = {
    client_name: "tests", redirect_uris: [CALLBACK], grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"], token_endpoint_auth_method: "none", application_type: "native",
  };
  constructor(token) {
    if (!token) return;
    this.client = { client_id: "web" };
    this.saved = { access_token: token, token_type: "Bearer" };
  }
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.saved; }
  saveTokens(tokens) { this.saved = tokens; }
  redirectToAuthorization(address) { this.address = address; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  codeVerifier() { return this.verifier; }
}

async function mcp(sdk, url, token, tool) {
  const login = new Login(token);
  let transport;
  const walk = async () => {
    transport = new sdk.StreamableHTTPClientTransport(new URL(url), { authProvider: login });
    const client = new sdk.Client({ name: "tests", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });
    try {
      await client.connect(transport);
      const { tools } = await client.listTools();
      const called = tool && (await client.callTool({ name: tool, arguments: {} }));
      return { tools: tools.map(({ name }) => name), called };
    } finally {
      await client.close();
    }
  };
  const refused = await walk().then(() => null, (error) => error);
  if (!(refused instanceof sdk.UnauthorizedError)) throw refused ?? new Error("let in without a login");
  const callback = await consent(login.address);
  await transport.finishAuth(callback.searchParams.get("code"), callback.searchParams.get("iss") ?? undefined);
  const seen = await walk();
  const asked = Object.fromEntries(login.address.searchParams);
  return { ...seen, registered: login.client.client_id, asked, granted: login.saved.scope };
}

const [flow, ...args] = process.argv.slice(2);
const flows = {
  code,
  mcp: (...args) => mcp({ Client, StreamableHTTPClientTransport, UnauthorizedError }, ...args),
  mcp2: (...args) => mcp(second, ...args),
  consent: async (address) => (await consent(address)).href,
};
console.log(JSON.stringify(await flows[flow](...args)));
