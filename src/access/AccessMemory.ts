import { Layer } from "effect"
import type { Audit } from "./Audit.js"
import * as AuditMemory from "./AuditMemory.js"
import type { Idempotency } from "./Idempotency.js"
import * as IdempotencyMemory from "./IdempotencyMemory.js"
import type { SavedViews } from "./SavedViews.js"
import * as SavedViewsMemory from "./SavedViewsMemory.js"
import type { Sessions } from "./Sessions.js"
import * as SessionsMemory from "./SessionsMemory.js"

/** Audit log, sessions, idempotency keys and saved views in memory, for tests. */
export const layer: Layer.Layer<Audit | Sessions | Idempotency | SavedViews> = Layer.mergeAll(
  AuditMemory.layer,
  SessionsMemory.layer,
  IdempotencyMemory.layer,
  SavedViewsMemory.layer
)
