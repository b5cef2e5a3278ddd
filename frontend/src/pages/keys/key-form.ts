import type { NewKey } from '../../api/keys.ts';
import { SCOPE_PRESETS } from '../../api/scopes.ts';

export interface KeyForm {
  name: string;
  /** Of `SCOPE_PRESETS`, or `own` for `scopes`. */
  preset: string;
  scopes: string[];
  /** As it was chosen; until then as is usual for the preset. */
  mcpOnly: boolean | undefined;
  /** Days, `date` or `never`. */
  expiry: string;
  /** `YYYY-MM-DD`, in the user's time zone. */
  expiresOn: string;
  rate: string;
  perMinute: number;
}

/** Whether the key is to be good at the MCP endpoint alone: usual for a client of MCP, and else of no use without it. */
export function isMcpOnly({ preset, mcpOnly }: KeyForm): boolean {
  return mcpOnly ?? preset === 'mcp';
}

/** Whether that is a choice at all: a key that cannot speak MCP would be good for nothing. */
export function speaksMcp({ preset, scopes }: KeyForm): boolean {
  return preset === 'mcp' || (preset === 'own' && scopes.includes('mcp:use'));
}

/** What the form asks the server for. */
export function newKey(form: KeyForm): NewKey {
  const preset = SCOPE_PRESETS.find((choice) => choice.id === form.preset);
  const key: NewKey = { name: form.name.trim(), scopes: preset ? preset.scopes : form.scopes };
  if (speaksMcp(form) && isMcpOnly(form)) key.mcp_only = true;
  // The whole day counts: a key that expires "on Friday" still works on Friday.
  if (form.expiry === 'date') key.expires_at = new Date(`${form.expiresOn}T23:59:59`).toISOString();
  else if (form.expiry !== 'never') key.expires_in_days = Number(form.expiry);
  if (form.rate === 'own') key.rate_limit = { per_minute: form.perMinute };
  else if (form.rate === 'none') key.rate_limit = null;
  return key;
}
