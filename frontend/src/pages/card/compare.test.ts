import { expect, it } from 'vitest';
import type { Source } from '../../api/types.ts';
import { differences, differingFirst, ownValue, takenByAll, valuesOf } from './compare.ts';

const source = (data: Source['data']): Source => ({ kind: 'supplier', data });

it('a price goes on being of the form that the card has', () => {
  const theirs = source({ price: '235.53', currency: 'CHF' });
  expect(valuesOf(theirs, { price: { amount: '79.36', currency: 'EUR' } })).toEqual([['price', { amount: '235.53', currency: 'CHF' }]]);
  expect(valuesOf(theirs, { price: { amount: 79.36, currency: 'EUR' } })).toEqual([['price', { amount: 235.53, currency: 'CHF' }]]);
  expect(valuesOf(theirs, { price: '79.36' })).toEqual([['price', '235.53'], ['currency', 'CHF']]);
});

it('the same amount of the same currency is no difference', () => {
  const own = { price: { amount: '235.5', currency: 'EUR' }, brand: 'Lumo' };
  expect(differences(own, { s: source({ price: '235.50', currency: 'EUR', brand: 'Lumo' }) })).toEqual([]);
  expect(differences(own, { s: source({ price: '235.50', currency: 'USD' }) }).map(({ name }) => name)).toEqual(['price']);
});

it('a source’s title stands beside the card’s own', () => {
  const card = { title: 'Lamp', sku: 'L-1', attributes: { brand: 'Lumo' } };
  expect(['title', 'sku', 'brand', 'colour'].map((name) => ownValue(card, name))).toEqual(['Lamp', 'L-1', 'Lumo', undefined]);
});

it('what a source says differently stands first', () => {
  const card = { title: 'Lamp', sku: 'L-1', attributes: { brand: 'Lumo' } };
  const values = valuesOf(source({ brand: 'Lumo', title: 'Lamp', colour: 'brass', sku: 'X' }), card.attributes);
  expect(differingFirst(card, values).map(([name]) => name)).toEqual(['colour', 'sku', 'brand', 'title']);
});

it('which page was read, and when, stands below what it says, and names are in order', () => {
  const values = valuesOf(source({ url: 'https://a.example', fetched_at: '2026-01-01', title: 'Y', colour: 'brass', brand: 'Lumo' }), {});
  expect(differingFirst({ title: 'Lamp', sku: 'L-1', attributes: { brand: 'Lumo' } }, values).map(([name]) => name)).toEqual(['colour', 'title', 'brand', 'fetched_at', 'url']);
});

it('all of a source is what is about the product and differs', () => {
  const values = valuesOf(source({ url: 'https://a.example', fetched_at: '2026-01-01', sku: 'X', title: 'Y', brand: 'Lumo', colour: 'brass' }), {});
  expect(takenByAll({ attributes: { brand: 'Lumo' } }, values)).toEqual([['colour', 'brass']]);
});
