import { DeadReason, State } from "../core/Job.js"
import { Instant } from "./Instant.js"
import * as WireText from "./WireText.js"

const described = (description: string) => ({ description })

/** Which jobs, in the query of a request. A parameter given several times means any of its values. */
export const query = {
  queue: WireText.optional(WireText.Names.annotations(described("Any of these queues."))),
  kind: WireText.optional(WireText.Texts.annotations(described("Any of these kinds."))),
  state: WireText.optional(WireText.someOf(State.literals)),
  deadReason: WireText.optional(WireText.someOf(DeadReason.literals)),
  since: WireText.optional(Instant.annotations(described("Stored at or after this instant."))),
  until: WireText.optional(Instant.annotations(described("Stored before this instant."))),
  payload: WireText.optional(WireText.JsonText.annotations(described("JSON that the payload must contain."))),
  dedupe: WireText.optional(WireText.Text.annotations(described("The dedupe key, whole."))),
  text: WireText.optional(WireText.Text.annotations(described("Text in the last error."))),
  shape: WireText.optional(
    WireText.Text.annotations(described("The shape of the last error, as groups of jobs give it."))
  )
}
