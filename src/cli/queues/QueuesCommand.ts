import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as QueueChange from "./QueueChange.js"
import * as QueuesListCommand from "./QueuesListCommand.js"

const pause = Command.make("pause", QueueChange.options, (given) =>
  QueueChange.perform(given, { paused: true }, `paused ${given.queue}: nothing begins any more, what runs finishes`)
).pipe(Command.withDescription("Let nothing of a queue begin until it is resumed."))

const resume = Command.make("resume", QueueChange.options, (given) =>
  QueueChange.perform(given, { paused: false, throttledUntil: null }, `resumed ${given.queue}`)
).pipe(Command.withDescription("Let a paused queue go on, and end its cool-down if there is one."))

const workers = Args.integer({ name: "workers" }).pipe(
  Args.withDescription("How many jobs of the queue the whole cluster is to run at a time.")
)

const scale = Command.make("scale", { ...QueueChange.options, workers }, (given) =>
  QueueChange.perform(given, { maxWorkers: given.workers }, `${given.queue}: ${given.workers} workers in all`)
).pipe(Command.withDescription("Set how many jobs of a queue run at a time, in the whole cluster."))

export const command = Command.make("queues").pipe(
  Command.withDescription("Look at queues and steer them."),
  Command.withSubcommands([QueuesListCommand.command, pause, resume, scale])
)
