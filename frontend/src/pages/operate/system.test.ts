import { expect, it } from 'vitest';
import type { System } from '../../api/system.ts';
import { checksOf, findingsOf, settingShown, worstFirst } from './system.ts';

const well = {
  health: { state: 'ready', ready: true, database: { up: true, version: '15.18' } },
  pools: [{ pool: 'core', plugin: null, max: 16, size: 2, idle: 2, waiting: 0 }],
  process: { open_fds: 89, max_fds: 1000 },
  plugins: { active: 2 },
  unattributed_crashes: { count: 0, last: null },
  worker_restarts: 0,
  log: { dropped_lines: 0 },
  undeclared_proxies: [],
} as unknown as System;

it('a host that is well passes every check', () => {
  expect(checksOf(well).every(({ tone }) => tone === 'good')).toBe(true);
});

it('what is wrong stands first', () => {
  const ill = { ...well, health: { ...well.health, database: { up: false, version: null } }, plugins: { active: 1, refused: 1 }, undeclared_proxies: ['10.0.0.1'], pools: [{ ...well.pools[0], plugin: 'echo', waiting: 3 }] } as System;
  const texts = worstFirst(checksOf(ill)).filter(({ tone }) => tone !== 'good').map(({ text }) => text);
  expect(texts).toEqual(['The database doesn’t answer', '1 plugin is out of service', 'Calls wait for a database connection: 3 in pool echo', 'Proxies not in TRUSTED_PROXIES send X-Forwarded-For: 10.0.0.1']);
});

it('what a check has found stands with what to do, the worst first', () => {
  const good = { code: 'landlock', severity: 'ok' as const, subject: 'kernel', message: 'Landlock is there.', cause: null, found: null, expected: null, fix: null };
  const full = { ...good, code: 'disk-full', severity: 'error' as const, subject: 'DATA_DIR', message: 'No space is left.', found: '1 MiB', expected: '1024 MiB', fix: 'Free some.' };
  expect(worstFirst(findingsOf([good, full]))).toEqual([
    { tone: 'bad', subject: 'DATA_DIR', text: 'No space is left.', notes: ['found: 1 MiB', 'expected: 1024 MiB', 'Free some.'] },
    { tone: 'good', subject: 'kernel', text: 'Landlock is there.', notes: [] },
  ]);
});

it('a setting is one line', () => {
  expect([null, [], ['a', 'b'], 24, 'on', '***'].map(settingShown)).toEqual(['not set', 'none', 'a, b', '24', 'on', '***']);
});
