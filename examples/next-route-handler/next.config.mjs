/** Nightshift talks to PostgreSQL: Next.js must load it from node_modules and not bundle it. */
export default { serverExternalPackages: ["nightshift", "effect", "pg"] }
