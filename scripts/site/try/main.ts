// What the page imports when a visitor starts it.
import { array, boolean, int, number, object, string } from "zod/mini"
import { event } from "../../../src/client/EventDefinition.js"
import { job } from "../../../src/client/JobDefinition.js"
import * as RateLimit from "../../../src/client/RateLimit.js"
import { on } from "../../../src/client/Subscriber.js"
import { workflow } from "../../../src/client/workflow/WorkflowDefinition.js"
import * as Outcome from "../../../src/core/Outcome.js"
import * as Cluster from "./Cluster.js"

/** The modules that a program of the page can import. */
const modules = {
  "nightshift/client": { event, job, on, Outcome, RateLimit, workflow },
  zod: { z: { array, boolean, int, number, object, string } }
}

type Modules = Readonly<Record<string, object>>

/** What a program exports: what its processes run, and the buttons of the page. */
export interface PageProgram extends Cluster.Program {
  /** What each button does, by its label. */
  readonly actions?: Readonly<Record<string, (shift: object) => unknown>>
}

/** Turns the text of a module into a function that returns its exports. */
const compiled = (text: string): ((imports: (name: string) => object) => PageProgram) => {
  const names = [...text.matchAll(/^export const (\w+)/gm)].map(([, name]) => name)
  const body = text
    .replace(/^import (\{[^}]*\}) from "([^"]+)"/gm, (_, list: string, from: string) => {
      return `const ${list.replaceAll(" as ", ": ")} = imports("${from}")`
    })
    .replace(/^export const/gm, "const")
  return new Function("imports", `"use strict"\n${body}\nreturn { ${names.join(", ")} }`) as ReturnType<typeof compiled>
}

const importing = (known: Modules) => (name: string) => {
  const module = known[name]
  if (module !== undefined) return module
  throw new Error(`The program imports "${name}". In this page it can import ${Object.keys(known).join(", ")}.`)
}

/** Starts a cluster that runs a program, given as the text of its module. */
export const start = (text: string) => {
  const program = compiled(text)
  return Cluster.start((sleep) => {
    const loaded = program(importing({ ...modules, "node:timers/promises": { setTimeout: sleep } }))
    if (!Array.isArray(loaded.handlers))
      throw new Error("The program exports no handlers. Add a line like: export const handlers = [sendMail]")
    return loaded
  })
}
