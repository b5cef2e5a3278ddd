// OAuth clients on the command line.
//   node oauth.mjs code ISSUER RESOURCE SCOPES LOGIN   authorization code with PKCE, by hand; prints the token answer
//   node oauth.mjs mcp URL                             the official MCP client's whole flow: the challenge, the
//                                                      metadata, its own registration, the code, tools/list
import { createHash, randomBytes } from "node:crypto";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
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
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.saved; }
  saveTokens(tokens) { this.saved = tokens; }
  redirectToAuthorization(address) { this.address = address; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  codeVerifier() { return this.verifier; }
}

async function mcp(url) {
  const login = new Login();
  const connect = async () => {
    const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: login });
    const client = new Client({ name: "tests", version: "1.0.0" });
    return { transport, client, outcome: await client.connect(transport).then(() => null, (error) => error) };
  };
  const first = await connect();
  if (!(first.outcome instanceof UnauthorizedError)) throw first.outcome ?? new Error("let in without a login");
  const callback = await consent(login.address);
  await first.transport.finishAuth(callback.searchParams.get("code"));
  const { client, outcome } = await connect();
  if (outcome) throw outcome;
  const { tools } = await client.listTools();
  await client.close();
  const asked = Object.fromEntries(login.address.searchParams);
  return { tools: tools.map((tool) => tool.name), registered: login.client.client_id, asked, granted: login.saved.scope };
}

const [flow, ...args] = process.argv.slice(2);
console.log(JSON.stringify(await { code, mcp }[flow](...args)));
