import { Context, Layer } from "effect"
import type { Supervisor } from "./Supervisor.js"

export class Supervisors extends Context.Tag("nightshift/crew/Supervisors")<Supervisors, Map<string, Supervisor>>() {
  static readonly layer: Layer.Layer<Supervisors> = Layer.sync(Supervisors, () => new Map())
}
