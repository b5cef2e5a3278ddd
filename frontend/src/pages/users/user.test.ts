import { expect, it } from 'vitest';
import type { Role, User } from '../../api/users.ts';
import { browserOf, isLastOwner, oneTimePassword, rolesToGive } from './user.ts';

const user = (id: string, role: Role, more: Partial<User> = {}): User => ({ id, username: id, kind: 'user', role, disabled: false, disabled_at: null, has_password: true, identity: null, created_at: '', updated_at: '', ...more });

it('a one-time password is long, readable, and drawn evenly', () => {
  expect(oneTimePassword()).toMatch(/^[a-km-zA-HJ-NP-Z2-9]{20}$/);
  expect(oneTimePassword()).not.toBe(oneTimePassword());
  let calls = 0;
  // 255 lies beyond the last whole multiple of the alphabet: drawn again.
  expect(oneTimePassword((bytes) => bytes.fill(calls++ ? 0 : 255))).toBe('a'.repeat(20));
});

it('the last owner who can sign in is known', () => {
  const ines = user('ines', 'owner');
  expect(isLastOwner(ines, [ines, user('b', 'admin')])).toBe(true);
  expect(isLastOwner(ines, [ines, user('b', 'owner', { disabled: true })])).toBe(true);
  expect(isLastOwner(ines, [ines, user('b', 'owner')])).toBe(false);
  expect(isLastOwner(user('b', 'admin'), [ines])).toBe(false);
});

it('nobody gives more than their own role', () => {
  expect(rolesToGive('owner')).toContain('owner');
  expect(rolesToGive('admin')).toEqual(['admin', 'editor', 'viewer']);
});

it('a browser is named in words', () => {
  expect(browserOf('Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36')).toBe('Chrome, Linux');
  expect(browserOf('Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0 Safari/537.36 Edg/156.0')).toBe('Edge, Windows');
  expect(browserOf('Mozilla/5.0 (Macintosh; Intel) AppleWebKit/605 Version/19 Safari/605')).toBe('Safari, macOS');
  expect(browserOf('curl/7.88.1')).toBe('curl/7.88.1');
  expect(browserOf(null)).toBe('');
});
