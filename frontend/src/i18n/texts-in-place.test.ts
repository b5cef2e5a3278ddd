import { expect, it } from 'vitest';
import { withTexts, type Text } from '../../build/texts.ts';

const areas = new Map([['users', new Map<string, Text>([['hi', 'Hi {name}'], ['bye', 'Bye'], ['role_owner', 'Owner'], ['role_admin', 'Admin'], ['rows', { one: '{n} row', other: '{n} rows' }]])]]);
const head = "import { t } from './i18n/users.ts';\n";
const built = (code: string) => withTexts(`${head}${code}`, 'ts', areas).trim();

it('puts each text in the place of its name', () => {
  expect(built("say(t('hi', { name: t('bye') }));")).toBe('say(translateText("Hi {name}", { name: translateText("Bye") }));');
  expect(built("t(good ? 'hi' : 'bye')")).toBe('translateText(good ? "Hi {name}" : "Bye")');
  expect(built("t('rows', { n })")).toBe('translateText({"one":"{n} row","other":"{n} rows"}, { n })');
  expect(built('t(`role_${role}`)')).toBe('translateText(({"role_owner":"Owner","role_admin":"Admin"})[`role_${role}`])');
  expect(withTexts(`<script lang="ts">\n${head}</script>\n<p title="{t('bye')} all">{t('bye')} t('bye')</p>`, 'svelte', areas)).toContain(`<p title="{translateText("Bye")} all">{translateText("Bye")} t('bye')</p>`);
});

it('refuses what it cannot tell', () => {
  const refused: [code: string, why: string][] = [
    ['t(name)', 'which text is name'], ["t('nothing')", 'no text has the name nothing'], ['t(`may_${role}`)', 'no texts have names like'],
    ["t(t('bye') ? 'hi' : 'bye')", 'a text is chosen by a text'],
    ['list.map(t)', 'can be called alone'], ['const { t: other } = { t };', 'can be called alone'], ["((t) => t('bye'))(say)", 'can be called alone'],
  ];
  for (const [code, why] of refused) expect(() => built(code), code).toThrow(why);
  expect(built("say({ t: 1 }.t, t('bye'))")).toBe('say({ t: 1 }.t, translateText("Bye"))');
});
