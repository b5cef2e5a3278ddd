// One ES module with everything in it: the Admin UI checks its hash, and allows neither inline scripts nor other servers.
// Styles go in with `import styles from './plugin.css?inline'` and `host.css?.(styles)`.
export default {
  publicDir: false,
  build: {
    lib: { entry: 'ui/plugin.ts', formats: ['es'], fileName: () => 'plugin.js' },
    outDir: 'frontend',
    // `cardinal plugin dev` looks at this folder: there is no moment without the module.
    emptyOutDir: false,
    target: 'es2022',
    rollupOptions: { output: { codeSplitting: false } },
  },
};
