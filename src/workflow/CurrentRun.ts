import { Context } from "effect"
import type { Run } from "./Run.js"

/** The run whose code calls the engine. */
export class CurrentRun extends Context.Tag("nightshift/workflow/CurrentRun")<CurrentRun, Run>() {}

/** The activity whose code runs. Undefined in the code of the workflow. */
export class CurrentActivity extends Context.Reference<CurrentActivity>()("nightshift/workflow/CurrentActivity", {
  defaultValue: (): { readonly name: string; readonly attempt: number } | undefined => undefined
}) {}
