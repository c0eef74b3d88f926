// Nightshift itself, as built in dist/.

export const system = {
  title: "nightshift",
  store: "postgres",
  peer: false,
  unavailable: async () => "systems/nightshift.mjs does not yet drive the queue of dist/index.js"
}
