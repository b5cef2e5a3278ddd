// The official TypeScript MCP client on the command line, used by the tests and by the first walk in README.
//   CARDINAL_API_KEY=mpk_... node mcp.mjs URL list
//   CARDINAL_API_KEY=mpk_... node mcp.mjs URL call TOOL '{"argument": "value"}'
//   CARDINAL_API_KEY=mpk_... node mcp.mjs URL read card://ID
//   CARDINAL_API_KEY=mpk_... node mcp.mjs URL complete TEXT  ids of cards that the text fits
//   CARDINAL_API_KEY=mpk_... node mcp.mjs URL again TIMES    connects, lists and closes so many times
// Prints what the server answered as JSON; exit code 1 when it answered with an error. With CONFIRM=accept or decline it
// answers questions about tool calls in the place of a user, and prints them as `asked`.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, action, tool, args = "{}"] = process.argv.slice(2);
const key = process.env.CARDINAL_API_KEY;
if (!url || !key || !(action === "list" || (["call", "read", "complete", "again"].includes(action) && tool))) {
  const actions = "list | call TOOL [JSON arguments] | read URI | complete TEXT | again TIMES";
  console.error(`usage: CARDINAL_API_KEY=mpk_... node mcp.mjs URL ${actions}`);
  process.exit(64);
}

const confirm = process.env.CONFIRM;
const asked = [];

const connected = async () => {
  const capabilities = confirm ? { elicitation: {} } : {};
  const client = new Client({ name: "cardinal-first-walk", version: "1.0.0" }, { capabilities });
  if (confirm) {
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
      asked.push(params.message);
      return { action: confirm, content: confirm === "accept" ? { confirm: true } : undefined };
    });
  }
  const requestInit = { headers: { Authorization: `Bearer ${key}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  return client;
};

async function listed(client) {
  const tools = [];
  let cursor;
  do {
    const page = await client.listTools({ cursor });
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor);
  return { server: client.getServerVersion(), tools };
}

/** One client after another, as scripts start and stop; the SDK's close() leaves the session open. */
async function again(times) {
  let tools;
  for (let run = 0; run < times; run++) {
    const client = await connected();
    tools = (await listed(client)).tools.length;
    await client.close();
  }
  return { runs: times, tools };
}

async function once() {
  client = await connected();
  if (action === "list") return listed(client);
  if (action === "read") return client.readResource({ uri: tool });
  if (action === "complete") {
    const ref = { type: "ref/resource", uri: "card://{id}" };
    return client.complete({ ref, argument: { name: "id", value: tool } });
  }
  const result = await client.callTool({ name: tool, arguments: JSON.parse(args) });
  return confirm ? { ...result, asked } : result;
}

let client;
try {
  const answer = await (action === "again" ? again(Number(tool)) : once());
  console.log(JSON.stringify(answer, null, 2));
  if (answer.isError) process.exitCode = 1;
} catch (error) {
  console.log(JSON.stringify({ error: { code: error.code ?? null, message: String(error.message) } }, null, 2));
  process.exitCode = 1;
} finally {
  await client?.close();
}
