import { expect, it } from 'vitest';
import { between, parseMetrics, quantile } from './metrics.ts';

const durations = (labels: string, buckets: Record<string, number>, name = 'cardinal_http_request_duration_seconds') => {
  const count = Object.values(buckets).at(-1) ?? 0;
  const lines = Object.entries(buckets).map(([le, n]) => `${name}_bucket{${labels},le="${le}"} ${n}`);
  return [...lines, `${name}_sum{${labels}} 1.5`, `${name}_count{${labels}} ${count}`].join('\n');
};

const page = [
  '# HELP cardinal_http_request_duration_seconds Time.',
  durations('method="GET",route="/healthz",status="2xx"', { '0.1': 900, '+Inf': 900 }),
  durations('method="GET",route="/v1/admin/master-cards",status="2xx"', { '0.1': 8, '1': 10, '+Inf': 10 }),
  durations('method="GET",route="/v1/admin/plugins/supplier/items",status="5xx"', { '0.1': 0, '1': 2, '+Inf': 2 }),
  durations('plugin="supplier"', { '0.1': 8, '1': 12, '+Inf': 12 }, 'cardinal_plugin_call_duration_seconds'),
  'cardinal_plugin_faults_total{plugin="supplier",kind="error"} 2',
  'cardinal_plugin_faults_total{plugin="supplier",kind="refused"} 7',
  'supplier_own_metric{x="1"} 5',
].join('\n');

const supplier = (text: string) => parseMetrics(text, 1).plugins.get('supplier') ?? { calls: 0, failed: 0, durations: new Map<number, number>() };

it('counts calls of plugins, their failures and routes', () => {
  const { plugins, routes } = parseMetrics(page, 1);
  expect([...(plugins.get('supplier')?.durations ?? [])].toSorted(([a], [b]) => a - b)).toEqual([[0.1, 8], [1, 12], [Infinity, 12]]);
  expect(plugins.get('supplier')).toMatchObject({ calls: 12, failed: 2 });
  expect([...routes.keys()]).toEqual(['GET /v1/admin/plugins/supplier/items']);
});

it('what happened between two samples is their difference, and all of it after a new start', () => {
  const before = supplier(page);
  const more = supplier(page.replace('"supplier",le="0.1"} 8', '"supplier",le="0.1"} 18').replaceAll('} 12', '} 22'));
  expect(between(before, more)).toMatchObject({ calls: 10, failed: 0 });
  expect(quantile(between(before, more), 0.99)).toBeCloseTo(0.099);
  expect(between(more, before)).toBe(before);
  expect(between(undefined, before)).toBe(before);
});

it('a quantile lies within its bucket, or beyond all', () => {
  expect(quantile(supplier(page), 0.5)).toBeCloseTo(0.075);
  expect(quantile(supplier(page), 0.99)).toBeGreaterThan(0.9);
  expect(quantile({ calls: 0, failed: 0, durations: new Map() }, 0.5)).toBeNull();
  expect(quantile({ calls: 1, failed: 0, durations: new Map([[10, 0], [Infinity, 1]]) }, 0.99)).toBe(Infinity);
});
