import { expect, it } from 'vitest';
import { failedCheck, verdicts } from './upload.ts';

it('only what an answer proves is said of a package', () => {
  expect(verdicts(failedCheck(422, 'validation-failed', 'signature-invalid'))).toMatchObject({ allowed: 'good', trusted: 'bad', package: 'unknown' });
  expect(verdicts(failedCheck(422, 'validation-failed', 'manifest-invalid'))).toMatchObject({ trusted: 'good', package: 'bad', loaded: 'unknown' });
  expect(verdicts(failedCheck(409, 'conflict', undefined))).toMatchObject({ trusted: 'good', package: 'bad' });
  expect(verdicts(failedCheck(403, 'forbidden', undefined))).toMatchObject({ allowed: 'bad', trusted: 'unknown' });
  expect(verdicts(null)).toMatchObject({ trusted: 'good', loaded: 'good' });
});

it.each([[0, 'network'], [403, 'insufficient-scope'], [408, 'request-timeout'], [413, 'payload-too-large'], [500, 'internal-error'], [503, 'overloaded'], [507, 'storage-full']])('%d %s says nothing about it', (status, code) => {
  expect(verdicts(failedCheck(status, code, undefined))).toEqual({ library: 'good', signature: 'good', allowed: 'unknown', trusted: 'unknown', package: 'unknown', loaded: 'unknown' });
});
