import { defineConfig } from "vite";

// Everything is served by opscope itself, under a policy that allows nothing inline.
export default defineConfig({
  base: "/",
  build: {
    outDir: "../src/opscope/server/page",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    reportCompressedSize: false,
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  worker: { format: "es" },
});
