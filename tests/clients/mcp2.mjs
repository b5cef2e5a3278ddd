// The official TypeScript client of the newest protocol revision, for the tests of confirmation and of sessions.
//   CARDINAL_API_KEY=mpk_... CONFIRM=accept|decline node mcp2.mjs URL call TOOL '{"argument": "value"}'
//   CARDINAL_API_KEY=mpk_... node mcp2.mjs URL again TIMES auto|legacy   connects, lists and closes so many times
// Prints the result as JSON, and the questions that it answered in the place of a user as `asked`.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, action, ...rest] = process.argv.slice(2);
const { CARDINAL_API_KEY: key, CONFIRM: confirm } = process.env;
if (!url || !key || !rest.length || !(action === "again" || (action === "call" && confirm))) {
  console.error("usage: CARDINAL_API_KEY=mpk_... CONFIRM=accept|decline node mcp2.mjs URL call TOOL [JSON arguments]");
  console.error("       CARDINAL_API_KEY=mpk_... node mcp2.mjs URL again TIMES auto|legacy");
  process.exit(64);
}

const asked = [];
let client;

async function connect(mode) {
  client = new Client(
    { name: "cardinal-newest-revision", version: "1.0.0" },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
  );
  client.setRequestHandler("elicitation/create", ({ params }) => {
    asked.push(params.message);
    return { action: confirm, content: confirm === "accept" ? { confirm: true } : undefined };
  });
  const requestInit = { headers: { Authorization: `Bearer ${key}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
}

async function call(name, args = "{}") {
  await connect("auto");
  return { ...(await client.callTool({ name, arguments: JSON.parse(args) })), asked };
}

/** One client after another, as scripts start and stop; the SDK's close() is all that ends them. */
async function again(times, mode) {
  let tools, revision;
  for (let run = 0; run < times; run++) {
    await connect(mode);
    tools = (await client.listTools()).tools.length;
    revision = client.getNegotiatedProtocolVersion();
    await client.close();
  }
  return { runs: Number(times), tools, revision };
}

try {
  console.log(JSON.stringify(await (action === "call" ? call(...rest) : again(...rest)), null, 2));
} catch (error) {
  console.log(JSON.stringify({ error: { code: error.code ?? null, message: String(error.message) } }, null, 2));
  process.exitCode = 1;
} finally {
  await client?.close();
}
