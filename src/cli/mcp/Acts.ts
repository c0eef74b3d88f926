import * as z from "zod/v4"
import type { QueueView } from "../../http/admin/QueueView.js"
import type { JobView } from "../../http/jobs/JobView.js"
import type { OperationView } from "../../http/jobs/OperationView.js"
import type { ExecutionView } from "../../http/workflows/ExecutionView.js"
import { jobLine, operationText, totalText, unknownQueue } from "./JobTools.js"
import * as Tool from "./Tool.js"
import { facts, line, value } from "./ToolText.js"

// The tools that change something. `plan` reads only.

const reason = z.string().min(3).max(500).describe("Why, for the audit log.")

const undoText = "An operator can undo it within one hour in Mission Control."

/** How often, and with what delay in milliseconds, the result of an operation is awaited before the answer. */
const polls = { times: 10, delay: 300 }

interface Preview {
  readonly matched: { readonly count: number; readonly exact: boolean }
  readonly filter: unknown
  readonly sample: ReadonlyArray<JobView>
  readonly undoable: boolean
}

const target = {
  ids: z.array(z.string()).min(1).max(100).optional().describe("Ids of jobs. Use either ids or filter."),
  filter: z.strictObject(Tool.jobFilter).optional().describe("The jobs that match, as dead_groups returns it.")
}

interface Targeted {
  readonly ids?: ReadonlyArray<string> | undefined
  readonly filter?: object | undefined
}

/** Plans a bulk action by its dry run. The confirmed one acts on the jobs that were counted, and on no others. */
const onJobs = async (
  action: "requeue" | "cancel",
  { filter, ids }: Targeted,
  more: { readonly reason: string; readonly rehearse?: number | undefined },
  { ask, now, sleep }: Tool.Service
): Promise<Tool.Plan> => {
  const bulk = (body: object) => ask("POST", "jobs/bulk", { body: { action, ...body } })
  const found = (await bulk({ ids, filter, dryRun: true, countTo: 10_000 })) as Preview
  if (found.matched.count === 0)
    return { head: `No job to ${action}: none matches, or none is in a state that allows it.` }
  const rehearsal =
    more.rehearse === undefined ? "" : ` ${more.rehearse} of them first, the others only if those succeed.`
  return {
    head: `Would ${action} ${totalText(found.matched)} jobs.${rehearsal} ${found.undoable ? undoText : "It cannot be undone."} First ones:`,
    data: found.sample.map((job) => jobLine(job, now())).join("\n"),
    run: async () => {
      const begun = await bulk({ ...(ids === undefined ? { filter: found.filter } : { ids }), ...more })
      const { operation } = begun as { readonly operation: string }
      const read = () => ask("GET", `operations/${operation}`) as Promise<OperationView>
      let state = await read()
      for (let poll = 0; state.finishedAt === null && poll < polls.times; poll += 1) {
        await sleep(polls.delay)
        state = await read()
      }
      return {
        ...operationText(state),
        next: `${state.finishedAt === null ? "operation with this id for its progress, " : ""}audit for the entry.`
      }
    }
  }
}

const requeue = Tool.act(
  "requeue",
  "Requeue dead jobs, with their attempts reset. Also done and cancelled ones, if the filter names these states.",
  {
    ...target,
    rehearse: z
      .int()
      .min(1)
      .max(100)
      .optional()
      .describe("Requeue this many first, the others only if all of them succeed."),
    reason
  },
  ({ reason, rehearse, ...jobs }, service) => onJobs("requeue", jobs, { reason, rehearse }, service)
)

const cancel = Tool.act(
  "cancel",
  "Cancel jobs that have not ended. Running ones are stopped. A workflow execution is cancelled by the id of its job, with its children.",
  { ...target, reason },
  ({ reason, ...jobs }, service) => onJobs("cancel", jobs, { reason }, service)
)

const turn = (name: "pause" | "resume", about: string, effect: string) =>
  Tool.act(
    name,
    about,
    { queue: z.string().min(1).describe("Name of the queue."), reason },
    async ({ queue, reason }, { ask }) => {
      const { queues } = (await ask("GET", "queues")) as { readonly queues: ReadonlyArray<QueueView> }
      const found = queues.find((each) => each.name === queue)
      if (found === undefined) throw unknownQueue(queue, queues)
      const paused = name === "pause"
      if (found.paused === paused && found.throttledUntil === null)
        return { head: `Nothing to do: the queue is ${paused ? "already" : "not"} paused.` }
      const { pending, retrying, running, scheduled } = found.counts
      return {
        head: `Would ${name} the queue. ${effect} It has ${pending.value} pending, ${scheduled.value} scheduled, ${retrying.value} retrying and ${running.value} running jobs.`,
        run: async () => {
          await ask("PATCH", `queues/${Tool.segment(queue)}`, { body: { paused }, reason })
          return { head: `The queue is ${paused ? "paused" : "resumed"}. ${undoText}` }
        }
      }
    }
  )

const pause = turn("pause", "Pause a queue.", "No job of it starts until it is resumed; running jobs continue.")
const resume = turn("resume", "Resume a paused queue.", "Its due jobs start at once.")

const signal = Tool.act(
  "signal",
  "Send a signal to a workflow execution, for example an approval that it waits for.",
  {
    id: Tool.executionId,
    name: z.string().min(1).describe("Name of the signal."),
    value: z.unknown().optional().describe("Value of the signal, any JSON."),
    reason
  },
  async ({ id, name, reason, value: sent }, { ask }) => {
    const found = (await ask("GET", `workflows/${Tool.segment(id)}`)) as ExecutionView
    if (found.finishedAt !== null) return { head: `Nothing to do: the execution has ended, ${found.state}.` }
    const awaited = found.waits.map((wait) => wait.name)
    const isAwaited = awaited.includes(name)
    return {
      head: `Would send this signal. ${isAwaited ? "The execution waits for it and continues." : "The execution does not wait for a signal of this name now: check the name. It is kept until it does."} It cannot be undone.`,
      data: facts([
        ["execution", line(found.execution)],
        ["signal", line(name)],
        ["value", sent === undefined ? "none" : value(sent)],
        ["waits for", awaited.map(line).join(", ") || "nothing"]
      ]),
      run: async () => {
        const body = { name, ...(sent === undefined ? {} : { value: sent }) }
        const { outcome } = (await ask("POST", `workflows/${Tool.segment(found.execution)}/signal`, {
          body,
          reason
        })) as {
          readonly outcome: string
        }
        return { head: `The signal was sent (${outcome}).`, next: "execution for its state." }
      }
    }
  }
)

export const acts: ReadonlyArray<Tool.Act> = [requeue, cancel, pause, resume, signal]
