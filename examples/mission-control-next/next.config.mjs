export default {
  // Next.js must load Nightshift from node_modules instead of bundling it.
  serverExternalPackages: ["nightshift"],
  // The pages of Mission Control are at /ops/ui/, with the slash: their links are relative.
  skipTrailingSlashRedirect: true
}
