import { existsSync } from 'node:fs';
import { defineConfig } from '@playwright/test';

/** The shell is the same browser without a window's own pages, which take half of its time where nobody sees them. */
const CHROMIUM = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find((path) => existsSync(path));

/** Browser tests against a host that runs already: its address and login come from the environment. */
export default defineConfig({
  testDir: 'e2e',
  outputDir: process.env.PLAYWRIGHT_OUTPUT_DIR ?? 'test-results',
  snapshotPathTemplate: 'e2e/pictures/{arg}{ext}',
  timeout: 120_000,
  // A plugin is enabled, probed and loaded while this machine's two cores have other tests to run as well.
  expect: { timeout: 30_000 },
  workers: 1,
  forbidOnly: Boolean(process.env.CI),
  reporter: [['list']],
  use: {
    baseURL: process.env.CARDINAL_URL ?? 'http://127.0.0.1:8080',
    locale: 'en-GB',
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? CHROMIUM,
      // Without a sandbox because containers and root have none, and each frame in a process of its own, as browsers with a
      // window have it; the rest keeps the browser from calling home.
      args: ['--no-sandbox', '--site-per-process', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    },
  },
});
