import * as z from "zod/v4"
import type { AuditPageView } from "../../http/access/AuditRoutes.js"
import type { ExecutionSummaryView, ExecutionView } from "../../http/workflows/ExecutionView.js"
import * as Docs from "./Docs.js"
import { moreAt } from "./JobTools.js"
import * as Tool from "./Tool.js"
import { counted, cut, facts, firstLine, json, line, value, when } from "./ToolText.js"

// The tools that read workflow executions, the audit log and the manual.

const waitText = ({ dueAt, kind, name }: ExecutionView["waits"][number], now: number) =>
  `${kind} ${line(name)}${dueAt === null ? "" : ` until ${when(dueAt, now)}`}`

const executions = Tool.tool(
  "executions",
  "List workflow executions, newest first.",
  {
    workflow: z.string().optional().describe("Name of the workflow."),
    state: z
      .string()
      .optional()
      .describe("State, such as running, sleeping, waiting, changed, done, failed or cancelled."),
    prefix: z.string().optional().describe("How the id starts."),
    tag: z.array(z.string()).optional().describe("Tags, as customer=42."),
    ...Tool.pageOf
  },
  async (filter, { ask, now }) => {
    const page = (await ask("GET", Tool.path("workflows", filter))) as {
      readonly executions: ReadonlyArray<ExecutionSummaryView>
      readonly next: string | null
    }
    return {
      head: `${counted(page.executions.length, "execution")}, newest first.`,
      data: page.executions
        .map(({ createdAt, execution, failedStep, lastError, state, stepsDone, waits }) => {
          const waiting = waits.map((wait) => waitText(wait, now())).join(", ")
          return `${line(execution)} ${state}, ${counted(stepsDone, "step")} done, started ${when(createdAt, now())}${waiting === "" ? "" : `, waits for ${waiting}`}${failedStep === null ? "" : `, failed in ${line(failedStep)}`}${lastError === null ? "" : `, error: ${firstLine(lastError)}`}`
        })
        .join("\n"),
      next: moreAt(page.next) ?? "execution with an id."
    }
  }
)

/** Steps of a journal that are shown. */
const maxSteps = 40

const execution = Tool.tool(
  "execution",
  "Show a workflow execution: state, waits, journal of its steps, and children.",
  { id: Tool.executionId },
  async ({ id }, { ask, now }) => {
    const found = (await ask("GET", `workflows/${Tool.segment(id)}`)) as ExecutionView
    const { childCounts, children, lastError, steps, waits } = found
    const open = children.filter(({ state }) => state !== "done").slice(0, 20)
    const counts = Object.entries(childCounts).filter(([, count]) => typeof count === "number" && count > 0)
    return {
      head: `The execution is ${found.state}, ${counted(steps.length, "step")} in its journal, the last ${Math.min(maxSteps, steps.length)} shown. Its job is ${found.id}.`,
      data: facts([
        ["execution", line(found.execution)],
        ["started", when(found.createdAt, now())],
        ["finished", found.finishedAt !== null && when(found.finishedAt, now())],
        ["tags", Object.keys(found.tags).length > 0 && value(found.tags)],
        ["payload", value(found.payload)],
        ["result", found.result !== null && value(found.result)],
        ["last error", lastError !== null && value(lastError)],
        ["waits for", waits.map((wait) => waitText(wait, now())).join(", ")],
        ["signals not received yet", found.unclaimed.map(line).join(", ")],
        ["values", Object.keys(found.values).length > 0 && value(found.values)],
        ["children", counts.map(([state, count]) => `${count} ${state}`).join(", ")],
        ...open.map(
          (child) =>
            [
              "child",
              `${child.id} ${line(child.kind ?? "")} ${child.state ?? "deleted"}${child.lastError === null ? "" : `: ${firstLine(child.lastError)}`}`
            ] as const
        ),
        ...steps
          .slice(-maxSteps)
          .map(
            ({ attempt, endedAt, exit, kind, name, outcome }) =>
              [
                `step ${line(name)}`,
                `${kind}, ${outcome}, attempt ${attempt}, ${endedAt}${exit === null ? "" : `: ${line(json(exit))}`}`
              ] as const
          )
      ]),
      next: `why or logs with the id ${found.id}${found.state === "waiting" ? ", signal with the name it waits for" : ""}.`
    }
  }
)

const audit = Tool.tool(
  "audit",
  "List who changed what, newest first. Your own changes are those of agent:<name>.",
  {
    target: z.string().optional().describe("Id or name of the changed object."),
    who: z.string().optional().describe("The author, such as api:admin."),
    act: z.string().optional().describe("The action, such as job.cancel, or its beginning: job."),
    ...Tool.pageOf
  },
  async (filter, { ask, now }) => {
    const page = (await ask("GET", Tool.path("audit", filter))) as AuditPageView
    return {
      head: `${page.entries.length} shown, newest first.`,
      data: page.entries
        .map(
          ({ act, after, at, reason, target, who }) =>
            `${when(at, now())} ${line(who)} ${act} ${line(target)}${reason === null ? "" : `, reason: ${line(reason)}`}${after === null ? "" : `, after: ${line(json(after))}`}`
        )
        .join("\n"),
      next: moreAt(page.next)
    }
  }
)

const docs = Tool.tool(
  "docs",
  "Search the manual of this version of Nightshift, or read a page of it.",
  {
    query: z.string().min(1).optional().describe("Words to search for."),
    page: z.string().min(1).optional().describe("A page to read, as in operate/why.md."),
    heading: z.string().min(1).optional().describe("Only this section of the page.")
  },
  async ({ heading, page, query }, { docs: folder }) => {
    if (page !== undefined) return { head: cut(Docs.read(folder, page, heading), 12_000) }
    if (query === undefined) throw new Error("Set query to search the manual, or page to read a page of it.")
    const found = Docs.search(folder, query)
    if (found.length === 0) return { head: "No section of the manual has these words. Try fewer or other words." }
    const parts = found.map(
      ({ excerpt, heading, page }) => `## ${page}${heading === "" ? "" : `, "${heading}"`}\n${excerpt}`
    )
    return { head: parts.join("\n\n"), next: "docs with a page and a heading." }
  }
)

export const tools: ReadonlyArray<Tool.Tool> = [executions, execution, audit, docs]
