/** Next.js must load Nightshift from node_modules instead of bundling it. */
export default { serverExternalPackages: ["nightshift", "effect", "pg"] }
