import { posix } from 'node:path';
import type { Plugin } from 'vite';

/** What Svelte has for pages that a server has drawn before: no page of ours is, and a tenth of its runtime asks for it. */
const WITHOUT_HYDRATION = `
  export const hydrating = false;
  export const hydrate_node = null;
  ${['set_hydrating', 'set_hydrate_node', 'hydrate_next', 'reset', 'hydrate_template', 'next', 'skip_nodes', 'read_hydration_instruction']
    .map((name) => `/* @__NO_SIDE_EFFECTS__ */ export function ${name}() {}`)
    .join('\n')}
`;
/** Flags of components as Svelte 4 had them, and of the experiments: as constants, so that what they would switch on is left out. */
const WITHOUT_MODES = `
  ${['async', 'legacy', 'tracing'].map((mode) => `export const ${mode}_mode_flag = false; export function enable_${mode}_mode_flag() {}`).join('\n')}
`;
/** `mount` draws inside a boundary for errors; no page of ours has one, so an error goes to the browser's console either way. */
const WITHOUT_BOUNDARIES = `
  import { block, branch } from '../../reactivity/effects.js';
  export const pending = null;
  export function boundary(node, props, children) { block(() => { branch(() => children(node)); }); }
`;
/** The experiment of `await` in components, which is off: of its module, what `{#await}` and every template call. */
const WITHOUT_ASYNC = `
  import { component_context, set_component_context } from '../context.js';
  import { active_effect, active_reaction, set_active_effect, set_active_reaction } from '../runtime.js';
  import { derived } from './deriveds.js';
  export function flatten(blockers, sync, async, fn) { fn(sync.map(derived)); }
  export function capture() {
    const effect = active_effect, reaction = active_reaction, context = component_context;
    return () => { set_active_effect(effect); set_active_reaction(reaction); set_component_context(context); };
  }
  export function unset_context() { set_active_effect(null); set_active_reaction(null); set_component_context(null); }
  ${['for_await_track_reactivity_loss', 'increment_pending', 'run', 'run_after_blockers', 'save', 'track_reactivity_loss', 'unsave', 'wait'].map((name) => `export const ${name} = null;`).join('\n')}
`;
/** State that is an object is `$state.raw` or a class of ours: none is made to tell of its members. */
const WITHOUT_PROXIES = `
  export function proxy(value) { return value; }
  export function get_proxied_value(value) { return value; }
  export function is(a, b) { return Object.is(a, b); }
`;
/** Styles of elements are set by name (`style:name={…}`): the security policy of the page blocks a `style` attribute, so none is read or written. */
const WITHOUT_STYLE_ATTRIBUTES = `
  export function set_style(element, value, before = {}, styles) {
    for (const name in styles) {
      if (before[name] === styles[name]) continue;
      if (styles[name] == null) element.style.removeProperty(name);
      else element.style.setProperty(name, styles[name]);
    }
    return styles;
  }
`;
const STYLE_ATTRIBUTE = /<[^<>]*\sstyle=|\sstyle:[\w-]+\|/;
const DEEP_STATE = /\$state(<[^()]*>)?\(\s*[[{]/;
/** Parts of modules for what no page of ours has: elements that move or fade as they come and go, selects of several options, and trying a change out beside the page (`fork`). */
const WITHOUT_PARTS: readonly [file: string, part: RegExp, instead: string][] = [
  ['dom/blocks/each.js', /\(flags & EACH_IS_ANIMATED\) !== 0/g, 'false'],
  // What has nothing to fade out is gone before the loop ends.
  ['dom/blocks/each.js', /\bif \(group\)/g, 'if (false)'],
  ['dom/blocks/each.js', /\bif \(remaining === 0\)/g, 'if (true)'],
  ['dom/blocks/each.js', /\bstate\.outrogroups !== null/g, 'false'],
  ['reactivity/effects.js', /= transitions\.length;/g, '= 0;'],
  ['reactivity/batch.js', /\b(?:this|batch)\.is_fork\b(?! =)/g, 'false'],
  // Nothing waits for an `await`, so no batch is put off.
  ['reactivity/batch.js', /this\.#is_deferred\(\)/g, 'false'],
  ['reactivity/batch.js', /\t(?:#is_deferred\(\)|(?:in|de)crement\(blocking, effect\)) \{[^]*?\n\t\}\n/g, ''],
  ['reactivity/batch.js', /\bfor \(const (?:\[effect, deferred\]|deferred) of (?:this|batch)\.async_deriveds(?:\.values\(\))?\) \{[^{}]*\}/g, ''],
  ['reactivity/batch.js', / && !this\.async_deriveds\.has\(effect\)|batch\.async_deriveds\.clear\(\);/g, ''],
  ['reactivity/batch.js', /\beffect\.b\?\.is_pending\b/g, 'false'],
  ['reactivity/deriveds.js', /\bcurrent_batch\?\.is_fork\b/g, 'false'],
  ['reactivity/sources.js', /\bbatch\.is_fork\b/g, 'false'],
  ['runtime.js', /\bcurrent_batch\?\.is_fork\b/g, 'false'],
  ['reactivity/effects.js', /\beffect\.nodes && effect\.nodes\.t\b/g, 'null'],
  // A list that nothing asks for; the bundler does not see that it can go, for what is copied into it.
  ['../../utils.js', /\.\.\.DOM_BOOLEAN_ATTRIBUTES,/g, ''],
  // Lists that take several choices, and selects that are drawn by `<selectedcontent>`.
  ['dom/elements/bindings/select.js', /\bselect\.multiple\b/g, 'false'],
  ['dom/elements/bindings/select.js', /entries\.every\(is_selectedcontent_mutation\)/g, 'false'],
  // Radio buttons alone have a group; a class is a text, and none of it is taken away by `class:name`; what went wrong has no boundary to go to.
  ['dom/elements/bindings/input.js', /\binput\.getAttribute\('type'\) === 'checkbox'/g, 'false'],
  ['../shared/attributes.js', /\btypeof value === 'object'/g, 'false'],
  ['../shared/attributes.js', /\belse if \(classname\.length\)/g, 'else if (false)'],
  ['error-handling.js', /\(effect\.f & BOUNDARY_EFFECT\) !== 0/g, 'false'],
  ['constants.js', /!!globalThis\.document\?\.contentType[^;]*;/g, 'false;'],
  ['dom/operations.js', /\bkey\.startsWith\('xlink:'\)/g, 'false'],
];
const MOVES = /<[^<>]*\s(?:transition|animate|in|out):\w/;
/** A list of classes, or one that stands in the text of the attribute beside its own directive. */
const CLASSES = /\sclass=\{[[{]|<[^<>]*\sclass="[^"]*(?<![\w-])([\w-]+)(?![\w-])[^"]*"[^<>]*\sclass:\1[=\s>/]/;
const CHECKED_GROUP = /<[^<>]*type="checkbox"[^<>]*\sbind:group/;
const SEVERAL = /<select\b[^<>]*\smultiple\b|<selectedcontent/;
const WITHOUT_CUSTOM_ELEMENTS = 'export const SvelteElement = undefined; export function create_custom_element() {}';

/**
 * Vite's own is for any page. A file's style sheet is waited for, its modules are only begun; a link that is there
 * already counts as loaded (`src/chunks.ts` mends those that are not).
 */
const PRELOAD = `
  export function __vitePreload(load, files = []) {
    return Promise.all(files.map((file) => {
      const href = '/admin/' + file;
      if (document.querySelector('link[href="' + href + '"]')) return;
      const isStyle = file.endsWith('.css');
      const link = Object.assign(document.createElement('link'), { rel: isStyle ? 'stylesheet' : 'modulepreload', crossOrigin: '', href });
      document.head.append(link);
      return isStyle && new Promise((done, failed) => Object.assign(link, { onload: done, onerror: () => failed(Error(href)) }));
    })).then(load);
  }
`;

/** Calls into the above, as Svelte's compiler writes them: what has no effect need not be called. */
export const DOES_NOTHING = ['$.reset', '$.next', '$.remove_input_defaults', '$.remove_textarea_child'];

/** Leaves out of the build what of Svelte's runtime, and of Vite's, cannot run here. The development server has all of it. */
export function clientOnly(): Plugin {
  return {
    name: 'cardinal-client-only',
    apply: 'build',
    enforce: 'pre',
    transform(code, id) {
      if (id.endsWith('.svelte') && code.includes('<svelte:boundary')) this.error(`${id}: a build has no boundaries; take them in again in build/client-only.ts`);
      if (id.endsWith('.svelte') && MOVES.test(code)) this.error(`${id}: a build has no transitions and animations; take them in again in build/client-only.ts`);
      if (id.endsWith('.svelte') && SEVERAL.test(code)) this.error(`${id}: a build has no selects of several options; take them in again in build/client-only.ts`);
      if (id.endsWith('.svelte') && STYLE_ATTRIBUTE.test(code)) this.error(`${id}: the page's security policy blocks a style attribute; use style:name={…}`);
      if (id.endsWith('.svelte') && CLASSES.test(code)) this.error(`${id}: a build has no lists of classes, and takes none away from a text; take them in again in build/client-only.ts`);
      if (id.endsWith('.svelte') && CHECKED_GROUP.test(code)) this.error(`${id}: a build has no groups of checkboxes; take them in again in build/client-only.ts`);
      if (/\.svelte(\.ts)?$/.test(id) && DEEP_STATE.test(code)) this.error(`${id}: a build has no deep state; use $state.raw or a class with a $state for each member`);
      const parts = WITHOUT_PARTS.filter(([file]) => id.endsWith(posix.join('/svelte/src/internal/client', file)));
      for (const [file, part, instead] of parts) {
        const without = code.replaceAll(part, instead);
        if (without === code) this.error(`${file} of Svelte has no ${part} any more: see build/client-only.ts`);
        code = without;
      }
      return parts.length ? code : null;
    },
    load(id) {
      if (id.endsWith('/svelte/src/internal/client/dom/hydration.js')) return WITHOUT_HYDRATION;
      if (id.endsWith('/svelte/src/internal/flags/index.js')) return WITHOUT_MODES;
      if (id.endsWith('/svelte/src/internal/client/dom/blocks/boundary.js')) return WITHOUT_BOUNDARIES;
      if (id.endsWith('/svelte/src/internal/client/reactivity/async.js')) return WITHOUT_ASYNC;
      if (id.endsWith('/svelte/src/internal/client/proxy.js')) return WITHOUT_PROXIES;
      if (id.endsWith('/svelte/src/internal/client/dom/elements/style.js')) return WITHOUT_STYLE_ATTRIBUTES;
      if (id.endsWith('/svelte/src/internal/client/dom/elements/custom-element.js')) return WITHOUT_CUSTOM_ELEMENTS;
      return id.endsWith('vite/preload-helper.js') ? PRELOAD : null;
    },
  };
}
