import { Effect } from "effect"
import type { DatabaseConfig } from "../../database/DatabaseConfig.js"
import type { DatabaseUrl } from "../../database/DatabaseUrl.js"
import * as Listener from "../../database/Listener.js"
import { type Finding, ok, warn } from "./Check.js"

const name = "notifications"

/** Checks whether NOTIFY reaches a listening process. */
export const look: Effect.Effect<ReadonlyArray<Finding>, never, DatabaseUrl | DatabaseConfig> = Listener.arrive.pipe(
  Effect.timeout("15 seconds"),
  Effect.catchAll(() => Effect.succeed(false)),
  Effect.map((arrive) =>
    arrive
      ? ok("Notifications arrive.")
      : warn(
          "Notifications do not arrive, so new jobs are found only by polling (QUEUE_POLL).",
          "If DATABASE_URL points to a pooler in transaction mode, set DATABASE_LISTEN_URL to a direct PostgreSQL connection."
        )
  ),
  Effect.map((finding) => [{ check: name, ...finding }])
)
