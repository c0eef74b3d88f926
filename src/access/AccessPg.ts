import { Layer } from "effect"
import type { Database } from "../database/Database.js"
import type { Audit } from "./Audit.js"
import * as AuditPg from "./AuditPg.js"
import type { Idempotency } from "./Idempotency.js"
import * as IdempotencyPg from "./IdempotencyPg.js"
import type { SavedViews } from "./SavedViews.js"
import * as SavedViewsPg from "./SavedViewsPg.js"
import type { Sessions } from "./Sessions.js"
import * as SessionsPg from "./SessionsPg.js"

/** Audit log, sessions, idempotency keys and saved views in PostgreSQL. */
export const layer: Layer.Layer<Audit | Sessions | Idempotency | SavedViews, never, Database> = Layer.mergeAll(
  AuditPg.layer,
  SessionsPg.layer,
  IdempotencyPg.layer,
  SavedViewsPg.layer
)
