// A real OpenID provider for the tests: node-oidc-provider, with a few doors for what tests do to it.
//   node provider.mjs PORT KEYS_FILE
// Keys are kept in KEYS_FILE, so that a provider that was killed comes back with the same ones.
// Prints {"issuer": ...} once it listens. Doors below /test: see `doors`.
import { createHmac, createPublicKey, createPrivateKey, generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import * as oidc from "oidc-provider";

const [port, keysFile] = process.argv.slice(2);
const SCOPES = "mcp:use cards:read cards:write keys:write users:write mcp:approve plugin:*:read plugin:*:write";
const CURVES = { ES256: "P-256", ES384: "P-384" };

function newKey(alg = "ES384") {
  const made = alg === "RS256"
    ? generateKeyPairSync("rsa", { modulusLength: 2048 })
    : generateKeyPairSync("ec", { namedCurve: CURVES[alg] });
  return { ...made.privateKey.export({ format: "jwk" }), alg, use: "sig", kid: randomUUID() };
}

let keys = existsSync(keysFile) ? JSON.parse(readFileSync(keysFile, "utf8")) : [newKey()];
const keep = () => writeFileSync(keysFile, JSON.stringify(keys));
keep();

const fetches = { discovery: 0, jwks: 0 };
let issuer;
let provider;

function open() {
  provider = new oidc.Provider(issuer, {
    jwks: { keys },
    // Only ES384 keys are there; the usual default, RS256, would find none.
    enabledJWA: { idTokenSigningAlgValues: ["ES384"] },
    clientDefaults: { id_token_signed_response_alg: "ES384" },
    clients: [
      { client_id: "machine", client_secret: "machine-secret", grant_types: ["client_credentials"], redirect_uris: [],
        response_types: [], token_endpoint_auth_method: "client_secret_post" },
      { client_id: "web", token_endpoint_auth_method: "none", grant_types: ["authorization_code"],
        response_types: ["code"], redirect_uris: ["http://127.0.0.1:9999/cb"], application_type: "native" },
    ],
    scopes: ["openid", "offline_access", ...SCOPES.split(" ")],
    pkce: { required: () => true },
    features: {
      clientCredentials: { enabled: true },
      registration: { enabled: true, initialAccessToken: false },
      devInteractions: { enabled: true }, // forms that take any login
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => ({
          scope: SCOPES, audience: resource, accessTokenFormat: "jwt", accessTokenTTL: 600, jwt: { sign: { alg: "ES384" } },
        }),
      },
    },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    extraTokenClaims: (_, token) => (token.accountId ? { preferred_username: token.accountId } : {}),
    cookies: { keys: ["tests"] },
  });
  return provider.callback();
}

const encode = (part) => Buffer.from(JSON.stringify(part)).toString("base64url");

// Signs anything: {header, claims, with}. `with`: "current" (default), "forged" (a key that is not published, under the
// published one's id), "hs256" (the public key as the secret), "none", "ES256", "RS256".
function forge({ header = {}, claims, with: how = "current" }) {
  const [current] = keys;
  const named = { alg: "ES384", typ: "at+jwt", kid: current.kid };
  const publicKey = createPublicKey({ key: current, format: "jwk" });
  const key = { forged: () => newKey(), ES256: () => newKey("ES256"), RS256: () => newKey("RS256") }[how]?.() ?? current;
  const alg = { hs256: "HS256", none: "none", ES256: "ES256", RS256: "RS256" }[how] ?? "ES384";
  const message = [{ ...named, alg, ...header }, claims].map(encode).join(".");
  if (how === "none") return `${message}.`;
  if (how === "hs256") {
    const secret = publicKey.export({ format: "pem", type: "spki" });
    return `${message}.${createHmac("sha256", secret).update(message).digest("base64url")}`;
  }
  const digest = alg === "ES384" ? "sha384" : "sha256";
  const options = { key: createPrivateKey({ key, format: "jwk" }), dsaEncoding: "ieee-p1363" };
  return `${message}.${sign(digest, Buffer.from(message), options).toString("base64url")}`;
}

const doors = {
  "/test/sign": (asked) => ({ token: forge(asked) }),
  "/test/fetches": () => fetches,
  // A new key signs from now on; the old one stays published unless it is dropped.
  "/test/rotate": ({ drop = false }) => {
    keys = drop ? [newKey()] : [newKey(), ...keys];
    keep();
    handler = open();
    return { kid: keys[0].kid };
  },
};

let handler;
const server = createServer(async (request, response) => {
  const path = request.url.split("?")[0];
  if (path.includes("/.well-known/")) fetches.discovery += 1;
  if (path === "/jwks") fetches.jwks += 1;
  const door = doors[path];
  if (!door) return handler(request, response);
  const body = Buffer.concat(await request.toArray()).toString();
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify(door(body ? JSON.parse(body) : {})));
});
server.listen(Number(port), "127.0.0.1", () => {
  issuer = `http://127.0.0.1:${server.address().port}`;
  handler = open();
  console.log(JSON.stringify({ issuer }));
});
