import type { NewKey } from '../../api/keys.ts';
import { SCOPE_PRESETS } from '../../api/scopes.ts';

export interface KeyForm {
  name: string;
  /** Of `SCOPE_PRESETS`, or `own` for `scopes`. */
  preset: string;
  scopes: string[];
  /** Days, `date` or `never`. */
  expiry: string;
  /** `YYYY-MM-DD`, in the user's time zone. */
  expiresOn: string;
  rate: string;
  perMinute: number;
}

/** What the form asks the server for. */
export function newKey(form: KeyForm): NewKey {
  const preset = SCOPE_PRESETS.find((choice) => choice.id === form.preset);
  const key: NewKey = { name: form.name.trim(), scopes: preset ? preset.scopes : form.scopes };
  // The whole day counts: a key that expires "on Friday" still works on Friday.
  if (form.expiry === 'date') key.expires_at = new Date(`${form.expiresOn}T23:59:59`).toISOString();
  else if (form.expiry !== 'never') key.expires_in_days = Number(form.expiry);
  if (form.rate === 'own') key.rate_limit = { per_minute: form.perMinute };
  else if (form.rate === 'none') key.rate_limit = null;
  return key;
}
