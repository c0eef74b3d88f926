import * as z from "zod/v4"
import type { ActName } from "./McpConfig.js"
import type { Answer } from "./ToolText.js"

/** The service that the tools ask, as the agent. */
export interface Service {
  /** Sends a request to `/api/v1/…` and returns the JSON. Rejects with a message for the model. */
  readonly ask: (
    method: "GET" | "POST" | "PATCH",
    path: string,
    options?: { readonly body?: unknown; readonly reason?: string }
  ) => Promise<unknown>
  /** The folder of the manual. */
  readonly docs: string
  /** Epoch milliseconds. */
  readonly now: () => number
  readonly sleep: (millis: number) => Promise<void>
}

/** A tool that reads. */
export interface Tool {
  readonly name: string
  readonly about: string
  readonly input: z.ZodObject
  readonly run: (given: unknown, service: Service) => Promise<Answer>
}

/** What an act would do. Without `run`, there is nothing to do. */
export interface Plan extends Answer {
  readonly run?: () => Promise<Answer>
}

/** A tool that changes something, in two calls: the first plans, the second confirms. */
export interface Act {
  readonly name: ActName
  readonly about: string
  readonly input: z.ZodObject
  readonly plan: (given: unknown, service: Service) => Promise<Plan>
}

export const tool = <Shape extends z.ZodRawShape>(
  name: string,
  about: string,
  shape: Shape,
  run: (given: z.output<z.ZodObject<Shape>>, service: Service) => Promise<Answer>
): Tool => {
  const input = z.strictObject(shape)
  return { name, about, input, run: async (given, service) => run(read(input, given), service) }
}

export const act = <Shape extends z.ZodRawShape>(
  name: ActName,
  about: string,
  shape: Shape,
  plan: (given: z.output<z.ZodObject<Shape>>, service: Service) => Promise<Plan>
): Act => {
  const input = z.strictObject(shape)
  return { name, about, input, plan: async (given, service) => plan(read(input, given), service) }
}

const read = <Shape extends z.ZodRawShape>(input: z.ZodObject<Shape>, given: unknown) => {
  const result = input.safeParse(given)
  if (result.success) return result.data
  const problems = result.error.issues.map(
    ({ message, path }) => `${path.length === 0 ? "" : `${path.join(".")}: `}${message}`
  )
  throw new Error(
    `Invalid arguments. ${problems.join("; ")}. Arguments: ${Object.keys(input.shape).join(", ") || "none"}.`
  )
}

/** A path of the API with query parameters. Undefined ones are left out, and lists are repeated. */
export const path = (start: string, query: Readonly<Record<string, unknown>> = {}): string => {
  const pairs = Object.entries(query).flatMap(([name, given]) =>
    [given ?? []].flat().map((one) => [name, String(one)] as [string, string])
  )
  return pairs.length === 0 ? start : `${start}?${new URLSearchParams(pairs)}`
}

export const segment = encodeURIComponent

/** Fields that several tools have. */
/** Dots alone would be steps of a path, which lead to another route. */
const idText = z.string().regex(/[^.]/, "must be an id")
export const id = idText.describe("Id of a job.")
export const operationId = idText.describe("Id that requeue or cancel returned.")
export const executionId = idText.describe("Id of a workflow execution, as in order/A-17, or of its job.")

/** Strings or lists of them. */
const many = (about: string) =>
  z
    .union([z.string(), z.array(z.string()).min(1).max(50)])
    .optional()
    .describe(about)

/** The filter of a list of jobs, and of an act on many. */
export const jobFilter = {
  queue: many("Queues."),
  kind: many("Kinds of jobs."),
  state: many("States: scheduled, retrying, pending, running, done, dead, cancelled."),
  reason: many("Why jobs are dead: exhausted, rejected, undecodable, unknown_kind, poison, not_undone."),
  text: z.string().min(1).optional().describe("Text in the last error."),
  shape: z.string().min(1).optional().describe("The shape of the error, exactly as dead_groups returns it."),
  search: z.string().min(1).optional().describe("Text in the id, kind or error, or a whole key or dedupe key."),
  since: z.string().optional().describe("Enqueued at or after this time, as 2026-01-31T09:00:00Z."),
  until: z.string().optional().describe("Enqueued before this time.")
}

export const pageOf = {
  limit: z.int().min(1).max(50).default(20).describe("How many, at most 50."),
  cursor: z.string().optional().describe("The cursor of the previous page.")
}
