import { defineConfig } from '@playwright/test';

/** Browser tests against a host that runs already: its address and login come from the environment. */
export default defineConfig({
  testDir: 'e2e',
  outputDir: process.env.PLAYWRIGHT_OUTPUT_DIR ?? 'test-results',
  snapshotPathTemplate: 'e2e/pictures/{arg}{ext}',
  timeout: 60_000,
  // A plugin is enabled, probed and loaded while this machine's two cores have other tests to run as well.
  expect: { timeout: 15_000 },
  workers: 1,
  forbidOnly: Boolean(process.env.CI),
  reporter: [['list']],
  use: {
    baseURL: process.env.CARDINAL_URL ?? 'http://127.0.0.1:8080',
    locale: 'en-GB',
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      // Without a sandbox because containers and root have none; the rest keeps the browser from calling home.
      args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    },
  },
});
