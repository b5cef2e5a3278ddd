import { expect, it } from 'vitest';
import type { PluginLine } from '../../api/plugin-logs.ts';
import { groupFaults } from './faults.ts';

const line = (id: number, more: Partial<PluginLine>): PluginLine => ({ id, at: '2026-11-23T03:00:00Z', level: 'error', source: 'host', message: '', fields: null, request_id: null, trace_id: null, ...more });

it('a panic that ended a call is one fault', () => {
  const panic = { message: 'panicked at src/lib.rs:4: no price', fields: { panic: true, thread: 'lane-1', backtrace: '0: a\n1: b' } };
  const call = { message: 'a call failed: panic: no price', request_id: 'r-1', fields: { cause: 'plugin', handler: 'GET /price', kind: 'panic' } };
  const groups = groupFaults([line(3, call), line(2, { ...panic, request_id: 'r-1' }), line(1, panic)]);
  expect(groups.map(({ what, where }) => [what, where])).toEqual([['no price', 'GET /price'], ['panicked at src/lib.rs:4: no price', '']]);
});

it('faults of server and browser are put together by what happened', () => {
  const call = { message: 'a call failed: error: shop.example answered 503', fields: { cause: 'downstream', handler: 'POST /enrich', kind: 'error', ms: 4 } };
  const tab = { level: 'warn', source: 'browser', message: 'the plugin’s frontend failed in a browser', fields: { phase: 'render', error: 'x is not a function', version: '1.0.0' } };
  const groups = groupFaults([line(5, call), line(4, tab), line(3, call), line(2, { level: 'info', message: 'ready' }), line(1, { source: 'plugin', message: 'No price.' })]);
  expect(groups.map(({ cause, what, where, times, last }) => [cause, what, where, times, last.id])).toEqual([
    ['downstream', 'shop.example answered 503', 'POST /enrich', 2, 5],
    ['browser', 'x is not a function', 'render', 1, 4],
    ['plugin', 'No price.', '', 1, 1],
  ]);
});
