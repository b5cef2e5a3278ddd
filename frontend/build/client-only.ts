import type { Plugin } from 'vite';

/** What Svelte has for pages that a server has drawn before: no page of ours is, and a tenth of its runtime asks for it. */
const WITHOUT_HYDRATION = `
  export const hydrating = false;
  export const hydrate_node = null;
  ${['set_hydrating', 'set_hydrate_node', 'hydrate_next', 'reset', 'hydrate_template', 'next', 'skip_nodes', 'read_hydration_instruction']
    .map((name) => `/* @__NO_SIDE_EFFECTS__ */ export function ${name}() {}`)
    .join('\n')}
`;
const WITHOUT_CUSTOM_ELEMENTS = 'export const SvelteElement = undefined; export function create_custom_element() {}';

/** Calls into the above, as Svelte's compiler writes them: what has no effect need not be called. */
export const DOES_NOTHING = ['$.reset', '$.next', '$.remove_input_defaults', '$.remove_textarea_child'];

/** Leaves out of the build what of Svelte's runtime cannot run here. The development server has all of it. */
export function clientOnly(): Plugin {
  return {
    name: 'cardinal-client-only',
    apply: 'build',
    enforce: 'pre',
    load(id) {
      if (id.endsWith('/svelte/src/internal/client/dom/hydration.js')) return WITHOUT_HYDRATION;
      if (id.endsWith('/svelte/src/internal/client/dom/elements/custom-element.js')) return WITHOUT_CUSTOM_ELEMENTS;
      return null;
    },
  };
}
