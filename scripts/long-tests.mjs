/** Files that `npm test` leaves to `npm run test:long`, which installs the libraries that the second folder needs. */
export const longTests = [
  "test/cli/EffectVersion.test.ts",
  "test/cli/Fleet.test.ts",
  "test/cli/FleetMove.test.ts",
  "test/cli/Mcp.test.ts",
  "test/client/Endpoints.test.ts",
  "test/client/Health.test.ts",
  "test/client/TwoCopies.test.ts",
  "test/database/embedded/DirectoryLock.test.ts",
  "test/database/embedded/EmbeddedPostgresThrowaway.test.ts",
  "test/fleet/Fleet{Client,Layer}.test.ts",
  "test/http/Fleet.test.ts",
  "test/journeys/MissionControlSafety.test.ts",
  "test/laws/QueueFleet.laws.test.ts",
  "test/laws/Sealed{Memory,Pg}.laws.test.ts",
  "test/libraries/*.test.ts",
  "test/long/**/*.test.ts",
  "test/scripts/release.test.ts",
  "test/serverless/Serverless.test.ts",
  "test/worker/Cluster.test.ts",
  "test/workflow/EffectContract.test.ts"
]
