import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as QueueChange from "./QueueChange.js"
import * as QueuesListCommand from "./QueuesListCommand.js"

const pause = Command.make("pause", QueueChange.options, (given) =>
  QueueChange.perform(given, { paused: true }, `paused ${given.queue}: no new jobs start; running jobs finish`)
).pipe(Command.withDescription("Pause a queue: none of its jobs start until you resume it."))

const resume = Command.make("resume", QueueChange.options, (given) =>
  QueueChange.perform(given, { paused: false, throttledUntil: null }, `resumed ${given.queue}`)
).pipe(Command.withDescription("Resume a paused queue and end its cool-down."))

const workers = Args.integer({ name: "workers" }).pipe(
  Args.withDescription("Maximum number of jobs of the queue that the cluster runs at a time.")
)

const scale = Command.make("scale", { ...QueueChange.options, workers }, (given) =>
  QueueChange.perform(given, { maxWorkers: given.workers }, `scaled ${given.queue} to ${given.workers} workers`)
).pipe(Command.withDescription("Set how many jobs of a queue the cluster runs at a time."))

export const command = Command.make("queues").pipe(
  Command.withDescription("List, pause, resume and scale queues."),
  Command.withSubcommands([QueuesListCommand.command, pause, resume, scale])
)
