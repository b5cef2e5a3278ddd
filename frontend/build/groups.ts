import { readdirSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import type { Plugin } from 'vite';

/**
 * The files of the build, by who needs them: small files each begin their compression anew and name what they share, so
 * there is one a group. What two groups need stands in the one that comes before both.
 */
const ROOTS = {
  /** For whoever is asked for a password. */
  signIn: /\/src\/main\.ts$/,
  /** For a plugin's tab in a frame of its own. */
  frame: /\/src\/frame\.ts$/,
  /** Around all pages. */
  shell: /\/src\/SignedIn\.svelte$/,
  editors: /\/src\/pages\/(cards|card|import)\/[A-Z]\w*\.svelte$/,
  operators: /\/src\/pages\/(?!cards\/|card\/|import\/)[a-z]+\/([A-Z]\w*\.svelte|in-need\.ts)$/,
} as const;

const STYLE = /[?&]type=style&/;

type Root = keyof typeof ROOTS;
type Context = { getModuleInfo: (id: string) => { importers: readonly string[] } | null };

/** Which group a module stands in; null leaves it to the bundler. */
export function groupOf(id: string, context: Context): string | null {
  if (/\/src\/i18n\/ru\//.test(id)) return 'ru';
  const roots = rootsOf(id, context);
  if (roots.has('signIn')) return ROOTS.signIn.test(id) ? null : 'sign-in';
  // A file of its own for what a frame and the cards' pages share would be small; the frame needs the sign-in's anyway.
  if (roots.has('frame')) return roots.size === 1 ? null : 'sign-in';
  // Styles are small, much alike, and one file of them is there before the first page.
  if (STYLE.test(id) || roots.has('shell') || (roots.has('editors') && roots.has('operators'))) return 'shell';
  return roots.has('editors') ? 'editors' : roots.has('operators') ? 'operators' : null;
}

/** Whatever needs the module before it runs. */
function rootsOf(id: string, context: Context): Set<Root> {
  const seen = new Set([id]);
  // Grows while it is read.
  for (const module of seen) for (const importer of context.getModuleInfo(module)?.importers ?? []) seen.add(importer);
  const names = Object.keys(ROOTS) as Root[];
  return new Set(names.filter((name) => [...seen].some((module) => ROOTS[name].test(module))));
}

/** A short name for the styles of each component, the same in every build of the same sources. */
export function shortHash(src: string): (file: { filename: string; hash: (text: string) => string }) => string {
  const files = readdirSync(src, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.name.endsWith('.svelte'))
    .map((entry) => relative(src, join(entry.parentPath, entry.name)))
    .toSorted();
  return ({ filename, hash }) => {
    const at = files.indexOf(relative(src, resolve(src, '..', filename)));
    return at < 0 ? `svelte-${hash(filename)}` : `s${at.toString(36)}`;
  };
}

/** A plugin's frame has its styles from the page that it stands in; its security policy allows no file of them. */
export function frameWithoutStyles(): Plugin {
  return {
    name: 'cardinal-frame-without-styles',
    apply: 'build',
    transformIndexHtml: { order: 'post', handler: (html, { filename }) => (filename.endsWith('frame.html') ? html.replace(/\n\s*<link rel="stylesheet"[^>]*>/g, '') : html) },
  };
}
