import type { Plugin } from 'vite';

/** The class that Svelte gives the elements of one component (`shortHash`). */
const SCOPE = /\.(s[0-9a-z]{1,2})(?![\w-])/g;

/** Writes the class of a component once around its rules, `.s2q{h2&{…}}` for `h2.s2q{…}`: half a KB of all styles. */
export function nestStyles(): Plugin {
  return {
    name: 'cardinal-nest-styles',
    apply: 'build',
    enforce: 'post',
    generateBundle(_, bundle) {
      for (const file of Object.values(bundle)) if (file.type === 'asset' && file.fileName.endsWith('.css')) file.source = nested(file.source.toString());
    },
  };
}

/** Rules keep their order; one that is not of one component alone stays as it is. */
export function nested(css: string): string {
  let written = '';
  let around = '';
  for (const rule of rulesOf(css)) {
    const scope = scopeOf(rule);
    if (scope !== around) written += `${around && '}'}${scope && `.${scope}{`}`;
    around = scope;
    written += scope ? rule.replace(SCOPE, '&') : rule;
  }
  return written + (around && '}');
}

/** The one class that each selector of the rule has, or nothing. */
function scopeOf(rule: string): string {
  const head = rule.slice(0, rule.indexOf('{'));
  if (head.startsWith('@') && !head.startsWith('@media')) return '';
  const scopes = head.startsWith('@') ? rulesOf(rule.slice(head.length + 1, -1)).map(scopeOf) : head.split(',').map((selector) => [...new Set(selector.match(SCOPE))].join('').slice(1));
  const [scope = ''] = scopes;
  return scopes.every((other) => other === scope) && !scope.includes('.') ? scope : '';
}

/** The rules of the outermost level. */
function rulesOf(css: string): string[] {
  const rules: string[] = [];
  let depth = 0;
  let begin = 0;
  for (const { 0: sign, index } of css.matchAll(/[{}]/g)) {
    depth += sign === '{' ? 1 : -1;
    if (depth) continue;
    rules.push(css.slice(begin, index + 1).trim());
    begin = index + 1;
  }
  return rules;
}
