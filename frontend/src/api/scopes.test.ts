import { expect, it } from 'vitest';
import { scopeGroups } from '../pages/keys/scope-groups.ts';
import { grantable, holds, SCOPE_PRESETS } from './scopes.ts';

it.each([
  [['*'], 'anything:write', true],
  [['cards:read'], 'cards:read', true],
  [['cards:read'], 'cards:write', false],
  [['cards:write'], 'cards:read', true],
  [['cards:write'], 'cards:purge', false],
  [['cards:*'], 'cards:purge', true],
  [['keys:read'], 'cards:read', false],
  [['plugin:*:read'], 'plugin:supplier:read', true],
  [['plugin:*:write'], 'plugin:supplier:read', true],
  [['plugin:*:read'], 'plugin:supplier:write', false],
  [['plugin:supplier:write'], 'plugin:other:read', false],
  [['plugin:supplier:read'], 'plugin:*:read', false],
  [['plugin:*'], 'plugin:supplier:write', true],
  [['plugins:manage'], 'plugin:supplier:read', false],
  [['cards:*'], '*', false],
  [[], 'cards:read', false],
])('%j for %s: %s', (have, needed, expected) => expect(holds(have, needed)).toBe(expected));

it('nobody is offered what only a person at a login holds', () => {
  expect(grantable(['*'], 'mcp:approve')).toBe(false);
  expect(grantable(['cards:read'], 'cards:write')).toBe(false);
});

it('an owner is offered every preset, a viewer what it holds', () => {
  const offered = (own: string[]) => SCOPE_PRESETS.filter((preset) => preset.scopes.every((scope) => grantable(own, scope))).map((preset) => preset.id);
  expect(offered(['*'])).toEqual(['mcp', 'read', 'integration', 'all']);
  expect(offered(['cards:read', 'plugin:*:read'])).toEqual(['read']);
});

it('each plugin has a group of its own', () => {
  const groups = scopeGroups([{ name: 'supplier', title: 'Supplier' }]);
  expect(groups.find((group) => group.title === 'Plugin Supplier')?.choices.map((choice) => choice.scope)).toEqual(['plugin:supplier:read', 'plugin:supplier:write']);
});
