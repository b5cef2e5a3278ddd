/** A request as somebody would repeat it by hand; the key is theirs to fill in. */
export interface ApiCall {
  method: string;
  /** From the origin on: `/v1/admin/users`. */
  path: string;
  body?: unknown;
  /** A file that is sent as the body. */
  file?: { name: string; type: string };
  headers?: Record<string, string>;
}

/** For a shell: single quotes, and those within left for a moment. */
export function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

export function curlOf({ method, path, body, file, headers = {} }: ApiCall, origin = location.origin): string {
  const parts = [`curl -H "Authorization: Bearer $CARDINAL_API_KEY"`];
  if (method !== 'GET') parts.push(`-X ${method}`);
  for (const [name, value] of Object.entries(headers)) parts.push(`-H ${shellQuote(`${name}: ${value}`)}`);
  if (body !== undefined) parts.push(`-H 'Content-Type: application/json'`, `-d ${shellQuote(JSON.stringify(body))}`);
  if (file) parts.push(`-H 'Content-Type: ${file.type}'`, `--data-binary ${shellQuote(`@${file.name}`)}`);
  return [...parts, shellQuote(origin + path)].join(' \\\n  ');
}
