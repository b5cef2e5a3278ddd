import { t } from '../i18n/plugin-tab.ts';
import { PluginFailure } from './failure.ts';

export const PLUGIN_ASSETS = '/admin/assets/plugins/';

export interface PluginModule {
  activate?: unknown;
  deactivate?: unknown;
}

export type LoadModule = (mainUrl: string, integrity: string, attempt: number) => Promise<PluginModule>;

/** Fetches a plugin's module, checks its hash, runs it. */
export const loadModule: LoadModule = async (mainUrl, integrity, attempt) => {
  const url = new URL(mainUrl, location.origin);
  if (url.origin !== location.origin || !url.pathname.startsWith(PLUGIN_ASSETS)) {
    throw new PluginFailure('load', t('badAddress'), mainUrl);
  }
  // A browser remembers that a module failed, for as long as the page lives; another fragment is another module.
  if (attempt > 0) url.hash = `retry-${attempt}`;
  await preload(url.href, integrity);
  try {
    return (await import(/* @vite-ignore */ url.href)) as PluginModule;
  } catch (thrown) {
    throw new PluginFailure('load', t('doesNotRun'), thrown);
  }
};

/** `import()` takes no hash, but it uses the module that a preload with a hash has fetched, and no other. */
function preload(href: string, integrity: string): Promise<void> {
  const link = document.createElement('link');
  if (!link.relList.supports('modulepreload')) return Promise.resolve();
  return new Promise((resolve, reject) => {
    link.rel = 'modulepreload';
    link.integrity = integrity;
    link.href = href;
    link.addEventListener('load', () => resolve());
    link.addEventListener('error', () => {
      link.remove();
      reject(new PluginFailure('load', t('notFetched')));
    });
    document.head.append(link);
  });
}

/** The plugin whose code a stack trace or a file name points to. */
export function pluginInStack(stack: string): string | null {
  return /\/admin\/assets\/plugins\/([a-z0-9-]+)\//.exec(stack)?.[1] ?? null;
}
