import type { AuditLine } from '../../api/audit.ts';
import type { Job } from '../../api/jobs.ts';
import { isObject } from '../../api/merge-patch.ts';
import type { Json } from '../../api/types.ts';
import { jobTitle } from '../../jobs/job.ts';
import { t } from '../../i18n/operate.ts';

/** One line of what an entry of the audit log records: with what it was before, where that is known. */
export interface Change {
  name: string;
  before?: string;
  after: string;
}

/**
 * What is recorded, as a table. The host writes a changed member as `{before, after}` or beside `…_before`, and a list
 * as `before` and `now`; whatever else stands there is shown as it is.
 */
export function changesOf(detail: Json): Change[] {
  if (!isObject(detail)) return detail === null || detail === undefined ? [] : [{ name: '', after: shown(detail) }];
  const names = Object.keys(detail).filter((name) => (detail[name] !== null || Object.hasOwn(detail, `${name}_before`)) && !(name.endsWith('_before') && Object.hasOwn(detail, name.slice(0, -'_before'.length))));
  if (Object.hasOwn(detail, 'before') && Object.hasOwn(detail, 'now')) {
    const rest = names.filter((name) => name !== 'before' && name !== 'now').map((name) => ({ name, after: shown(detail[name] as Json) }));
    return [{ name: 'items', before: shown(detail.before as Json), after: shown(detail.now as Json) }, ...rest];
  }
  return names.map((name) => {
    const value = detail[name] as Json;
    if (isObject(value) && Object.hasOwn(value, 'before') && Object.hasOwn(value, 'after')) return { name, before: shown(value.before as Json), after: shown(value.after as Json) };
    const before = detail[`${name}_before`];
    return { name, ...(before !== undefined && { before: shown(before) }), after: shown(value) };
  });
}

function shown(value: Json): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value) && value.length && value.every((item) => typeof item === 'string')) return value.join(', ');
  return isObject(value) || Array.isArray(value) ? JSON.stringify(value, null, 1) : String(value);
}

/** What an act was done to, and where that is shown. */
export interface Target {
  /** Empty when there is nothing better than the id. */
  name: string;
  href?: string;
  isJob?: boolean;
}

type Line = Pick<AuditLine, 'action' | 'target' | 'detail'>;
const ID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

/** Who and what has an id, as far as lines and `jobs` say: so that nothing has to be asked for line by line. */
export function namesOf(lines: readonly AuditLine[], jobs: readonly Job[] = []): Map<string, string> {
  const names = new Map<string, string>();
  for (const line of lines) {
    if (line.actor.id && line.actor.name) names.set(line.actor.id, line.actor.name);
    const name = recordedName(line);
    if (line.target && name) names.set(line.target, name);
  }
  for (const job of jobs) names.set(job.id, jobTitle(job));
  return names;
}

/** What an act was done to: by its name, where one is known, and else as the log has it. */
export function targetOf(line: Line, names: ReadonlyMap<string, string> = new Map()): Target {
  const { action, target } = line;
  if (!target) return { name: '' };
  const name = recordedName(line) || names.get(target) || (ID.test(target) ? '' : target);
  const path = encodeURIComponent(name);
  if (action.startsWith('plugin.')) return { name, href: `/admin/plugins/${path}` };
  if (action.startsWith('user.')) return { name, ...(name && { href: `/admin/users?q=${path}` }) };
  if (action.startsWith('api_key.')) return { name, href: '/admin/mcp/keys' };
  if (action.startsWith('approval.')) return { name, href: `/admin/approvals?call=${target}` };
  return { name, isJob: action.startsWith('job.') || action === 'card.import' };
}

/** The name that the line itself has for what it is about. */
function recordedName({ action, detail }: Line): string {
  if (!isObject(detail)) return '';
  if (action === 'job.start' || action === 'card.import') return jobTitle({ total: null, ...detail, action: action === 'job.start' ? String(detail.action) : 'import', args: detail } as unknown as Job);
  const name = detail.username ?? detail.name ?? detail.tool;
  return typeof name === 'string' ? name : '';
}

/** A day in the user's time zone as the bound of a filter: its beginning, or that of the next one. */
export function dayBound(day: string, next: boolean): string {
  const date = new Date(`${day}T00:00:00`);
  if (next) date.setDate(date.getDate() + 1);
  return date.toISOString();
}

/** How an act ended: `failed` is a tool's call that was let through and came to nothing. */
export const OUTCOMES = ['ok', 'failed', 'refused'] as const;

export function outcomeWord(outcome: string): string {
  return { ok: t('outcome_ok'), failed: t('outcome_failed'), refused: t('outcome_refused') }[outcome] ?? outcome;
}

/** Every act that the log knows by name, for the filter. */
export const ACTIONS = [
  'api_key.create', 'api_key.revoke', 'api_key.rotate', 'api_key.update', 'approval.approve', 'approval.ask', 'approval.deny', 'approval.use', 'auth.login', 'auth.logout', 'auth.password', 'card.import', 'card.purge', 'job.cancel', 'job.start',
  'plugin.accept_signer', 'plugin.confirm_migration', 'plugin.disable', 'plugin.drop_object', 'plugin.enable', 'plugin.purge', 'plugin.release', 'plugin.reload', 'plugin.remove', 'plugin.rescan', 'plugin.rollback', 'plugin.settings', 'plugin.upload',
  'proxy.routes', 'session.end', 'session.end_all', 'system.log-level', 'tool.call', 'tool.run_unattended', 'user.bootstrap', 'user.create', 'user.delete', 'user.update',
] as const;

export function actionInWords(action: string): string {
  const known = ACTIONS.find((name) => name === action);
  return known ? t(`action_${known}`) : action;
}
