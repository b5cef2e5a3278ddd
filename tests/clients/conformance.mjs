// The official MCP conformance suite against a host, with the tools of the fixture `conformance`.
//   CARDINAL_API_KEY=mpk_... node conformance.mjs URL REVISION BASELINE FOLDER
// The suite can neither send a credential nor call tools by the names that a plugin's tools have, so a proxy before the host
// adds both. It passes everything else as it is. BASELINE lists what is expected to fail; the suite fails when another
// scenario does, and when one of these no longer does. FOLDER gets the suite's results.
import { spawn } from "node:child_process";
import http from "node:http";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const [url, revision, baseline, folder] = process.argv.slice(2);
const key = process.env.CARDINAL_API_KEY;
if (!key || !folder) {
  console.error("usage: CARDINAL_API_KEY=mpk_... node conformance.mjs URL REVISION BASELINE FOLDER");
  process.exit(64);
}
const host = new URL(url);
const PREFIX = "plugin_conformance_";
const METHODS = ["tools/call", "prompts/get"];
const isOurs = (name) => typeof name === "string" && /^(test_|json_schema_)/.test(name);

/** The message with the plugin's name for the tool that it calls, or the prompt that it gets. */
function renamed(body) {
  let message;
  try {
    message = JSON.parse(body);
  } catch {
    return body; // a scenario may send anything
  }
  if (!METHODS.includes(message?.method) || !isOurs(message.params?.name)) return body;
  message.params.name = PREFIX + message.params.name;
  return JSON.stringify(message);
}

function headersFor(request, body) {
  const headers = { ...request.headers, authorization: `Bearer ${key}`, "content-length": Buffer.byteLength(body) };
  const own = `127.0.0.1:${proxy.address().port}`;
  if (headers.host === own) headers.host = host.host;
  if (METHODS.includes(headers["mcp-method"]) && isOurs(headers["mcp-name"])) {
    headers["mcp-name"] = PREFIX + headers["mcp-name"];
  }
  return headers;
}

/** Passes an answer on line by line, so that no name is cut in two. */
function passOn(answer, reply) {
  const headers = { ...answer.headers };
  delete headers["content-length"];
  reply.writeHead(answer.statusCode, headers);
  reply.flushHeaders();
  let rest = "";
  answer.setEncoding("utf8");
  answer.on("data", (text) => {
    const end = (rest + text).lastIndexOf("\n") + 1;
    const lines = (rest + text).slice(0, end);
    rest = (rest + text).slice(end);
    if (lines) reply.write(lines.replaceAll(PREFIX, ""));
  });
  answer.on("end", () => reply.end(rest.replaceAll(PREFIX, "")));
  answer.on("error", () => reply.destroy());
}

const proxy = http.createServer(async (request, reply) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const body = renamed(Buffer.concat(pieces).toString());
  const options = {
    host: host.hostname, port: host.port, path: request.url, method: request.method, headers: headersFor(request, body),
  };
  const passed = http.request(options, (answer) => passOn(answer, reply));
  passed.on("error", () => reply.destroy());
  reply.on("close", () => passed.destroy());
  passed.end(body);
});

await new Promise((listening) => proxy.listen(0, "127.0.0.1", listening));
const entry = createRequire(import.meta.url).resolve("@modelcontextprotocol/conformance/package.json");
const suite = join(dirname(entry), "dist/index.js");
const target = `http://127.0.0.1:${proxy.address().port}${host.pathname}`;
const run = ["server", "--url", target, "--requirements", revision, "--expected-failures", baseline, "-o", folder];
const timeouts = new URL("long-timeouts.mjs", import.meta.url).href;
const ended = spawn(process.execPath, ["--import", timeouts, suite, ...run], { stdio: "inherit" });
ended.on("exit", (code) => {
  proxy.closeAllConnections();
  proxy.close();
  process.exitCode = code ?? 1;
});
