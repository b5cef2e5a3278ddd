import { expect, it } from 'vitest';
import { STATIC_TEXT } from '../../build/templates.ts';
import { withTexts, type Text } from '../../build/texts.ts';

const areas = new Map([['users', new Map<string, Text>([['hi', 'Hi {name}'], ['bye', 'Bye'], ['role_owner', 'Owner'], ['role_admin', 'Admin'], ['rows', { one: '{n} row', other: '{n} rows' }]])]]);
const head = "import { t } from './i18n/users.ts';\n";
const built = (code: string) => withTexts(`${head}${code}`, 'ts', areas).trim();

it('puts each text in the place of its name', () => {
  expect(built("say(t('hi', { name: t('bye') }));")).toBe('say(translateText("Hi {name}", { name: translateText("Bye") }));');
  expect(built("t(good ? 'hi' : 'bye')")).toBe('translateText(good ? "Hi {name}" : "Bye")');
  expect(built("t('rows', { n })")).toBe('translateText({"one":"{n} row","other":"{n} rows"}, { n })');
  expect(built('t(`role_${role}`)')).toBe('translateText(({"owner":"Owner","admin":"Admin"})[role])');
  expect(withTexts(`<script lang="ts">\n${head}</script>\n<p title="{t('bye')} all">{t('bye')} t('bye')</p>`, 'svelte', areas)).toContain(`<p title="{translateText("Bye")} all">{translateText("Bye")} t('bye')</p>`);
});

it('leaves a text in the markup that is all an element or an attribute says', () => {
  const markup = (code: string) => withTexts(`<script lang="ts">\n${head}</script>${code}`, 'svelte', areas).split('</script>')[1]?.replaceAll(STATIC_TEXT, '§');
  expect(markup(`<p title={t('bye')}>{t('bye')}</p>`)).toBe('<p title="§Bye">§Bye</p>');
  expect(markup(`<p><b></b> {t('bye')}\n</p>`)).toBe('<p><b></b> §Bye\n</p>');
  // A text beside it is one text with it, a component has no element, a spread has no template, what needs values has to ask.
  for (const [code, left] of [
    [`<p>{t('bye')} all</p>`, 1], [`<p>{t('bye')} {name}</p>`, 1], [`<Row>{t('bye')}</Row>`, 1], [`<p {...rest} title={t('bye')}></p>`, 1], [`<p id={t('bye')}></p>`, 1],
    [`<p>{t('hi', { name })}</p>`, 1], [`{#if name}{t('bye')}{/if}`, 1], [`<textarea>{t('bye')}</textarea>`, 1], [`<p>{t(name ? 'hi' : 'bye')}</p>`, 1],
  ] as const) expect(markup(code)?.split('translateText').length, code).toBe(left + 1);
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
