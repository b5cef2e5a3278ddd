// @ts-check
/**
 * Writes the types of the admin API as the host describes it: `node build/types.js DOCUMENT [--check]`, DOCUMENT being
 * the file or address of an `openapi.json`. The core's own schemas alone: plugins' routes differ from host to host.
 * With `--check` it only says whether `src/api/generated.ts` is what would be written; `tests/tests/it/openapi.rs` runs
 * it so.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** @typedef {{ [member: string]: any }} Schema */

const OUT = fileURLToPath(new URL('../src/api/generated.ts', import.meta.url));
const POINTER = '#/components/schemas/';
const HEAD = `/** Made by build/types.js from the host's description of its API (\`GET /v1/admin/openapi.json\`). Not written by hand. */\n\n/** Any JSON. */\nexport type Json = null | boolean | number | string | Json[] | JsonObject;\nexport interface JsonObject {\n  [member: string]: Json;\n}\n`;
const NAMES = { string: 'string', integer: 'number', number: 'number', boolean: 'boolean', null: 'null' };

const [source, mode] = process.argv.slice(2);
if (!source) {
  process.stderr.write('usage: node build/types.js DOCUMENT [--check]\n');
  process.exit(64);
}
const made = write(await read(source));
if (mode === '--check') {
  if (readFileSync(OUT, 'utf8') !== made) {
    process.stderr.write('src/api/generated.ts is not what the host describes: run `npm run types -- <address of openapi.json>`\n');
    process.exit(1);
  }
} else {
  writeFileSync(OUT, made);
}

/** @param {string} from @returns {Promise<Schema>} */
async function read(from) {
  if (!/^https?:/.test(from)) return JSON.parse(readFileSync(from, 'utf8'));
  const token = process.env.CARDINAL_TOKEN;
  const answer = await fetch(from, token ? { headers: { Authorization: `Bearer ${token}` } } : {});
  if (!answer.ok) throw new Error(`${from} answers ${answer.status}; set CARDINAL_TOKEN to a credential`);
  return answer.json();
}

/** @param {Schema} document */
function write(document) {
  const schemas = Object.entries(document.components.schemas).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const types = schemas.map(([name, schema]) => `${comment(schema, '')}export type ${name} = ${type(schema, '')};\n`);
  return [HEAD, ...types].join('\n');
}

/** @param {Schema | boolean} schema @param {string} indent @returns {string} */
function type(schema, indent) {
  if (typeof schema === 'boolean') return schema ? 'Json' : 'never';
  if (schema.$ref) return String(schema.$ref).slice(POINTER.length);
  if ('const' in schema) return JSON.stringify(schema.const);
  if (schema.enum) return union(schema.enum.map((/** @type {unknown} */ value) => JSON.stringify(value)));
  if (schema.anyOf ?? schema.oneOf) {
    const either = union((schema.anyOf ?? schema.oneOf).map((/** @type {Schema} */ part) => type(part, indent)));
    return schema.properties ? `${object(schema, indent)} & (${either})` : either;
  }
  if (schema.allOf) return schema.allOf.map((/** @type {Schema} */ part) => type(part, indent)).join(' & ');
  if (Array.isArray(schema.type)) return union(schema.type.map((/** @type {string} */ one) => type({ ...schema, type: one }, indent)));
  if (schema.type === 'array') return `${wrapped(type(schema.items ?? true, indent))}[]`;
  if (schema.type === 'object' || schema.properties) return object(schema, indent);
  return schema.type ? NAMES[/** @type {keyof typeof NAMES} */ (schema.type)] : 'Json';
}

/** @param {Schema} schema @param {string} indent @returns {string} */
function object(schema, indent) {
  const inner = `${indent}  `;
  const required = new Set(schema.required ?? []);
  const members = Object.entries(schema.properties ?? {}).map(
    ([name, member]) => `${comment(member, inner)}${inner}${/^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name)}${required.has(name) ? '' : '?'}: ${type(member, inner)};\n`,
  );
  const more = schema.additionalProperties;
  const others = more === true || (more === undefined && !members.length) ? 'JsonObject' : more ? `Record<string, ${type(more, indent)}>` : '';
  if (!members.length) return others || 'Record<string, never>';
  return `{\n${members.join('')}${indent}}${others ? ` & ${others === 'JsonObject' ? 'Record<string, unknown>' : others}` : ''}`;
}

/** @param {string[]} types */
function union(types) {
  return [...new Set(types)].join(' | ');
}

/** @param {string} text */
function wrapped(text) {
  return /[|&]/.test(text) ? `(${text})` : text;
}

/** @param {Schema | boolean} schema @param {string} indent */
function comment(schema, indent) {
  const text = typeof schema === 'object' && schema.description ? String(schema.description).replace(/\s+/g, ' ').replaceAll('*/', '*\\/') : '';
  return text ? `${indent}/** ${text} */\n` : '';
}
