import { join } from 'node:path';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';
import { clientOnly, DOES_NOTHING } from './build/client-only.ts';
import { frameWithoutStyles, groupOf, shortHash } from './build/groups.ts';
import { nestStyles } from './build/nest-styles.ts';
import { publish } from './build/publish.ts';
import { secondPass } from './build/second-pass.ts';
import { packedTemplates } from './build/templates.ts';
import { sharedTemplates } from './build/shared-templates.ts';
import { textsInPlace } from './build/texts.ts';

/** The running host that `npm run dev` talks to. */
const host = process.env.CARDINAL_URL ?? 'http://127.0.0.1:8080';

export default defineConfig({
  base: '/admin/',
  plugins: [
    clientOnly(),
    textsInPlace(import.meta.dirname),
    svelte({ compilerOptions: { runes: true, cssHash: shortHash(join(import.meta.dirname, 'src')), discloseVersion: false, fragments: 'tree' } }),
    packedTemplates(import.meta.dirname),
    frameWithoutStyles(),
    sharedTemplates(),
    secondPass(import.meta.dirname),
    nestStyles(),
    publish(),
  ],
  build: {
    target: 'es2022',
    // Colours of both themes in one declaration, as they are written.
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    // Nothing inline: the content security policy of the page allows files of our own only.
    assetsInlineLimit: 0,
    // What the page has from its beginning need not be fetched before a part of it.
    modulePreload: { polyfill: false, resolveDependencies: (_, files, { hostType }) => (hostType === 'js' ? files.filter((file) => !file.includes('/sign-in-')) : files) },
    rolldownOptions: {
      input: ['index.html', 'frame.html'],
      checks: { pluginTimings: false },
      treeshake: { manualPureFunctions: DOES_NOTHING },
      output: { codeSplitting: { includeDependenciesRecursively: false, groups: [{ name: groupOf }] } },
    },
  },
  server: {
    proxy: Object.fromEntries(
      ['/v1', '/api', '/.well-known', '/metrics', '/problems', '/admin/assets/plugins/'].map((path) => [path, { target: host, changeOrigin: true }]),
    ),
  },
  test: { environment: 'happy-dom', include: ['src/**/*.test.ts'] },
  // Vitest takes a package's server build otherwise, in which Svelte cannot mount a component.
  ...(process.env.VITEST ? { resolve: { conditions: ['browser'] } } : {}),
});
