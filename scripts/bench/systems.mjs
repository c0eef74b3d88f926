// The systems by name, and the interface of each file in systems/.
//
//   title         name in the tables
//   store         "postgres" (a fresh database per measurement) or "redis" [postgres]
//   peer          whether it is installed in peers/node_modules [false]
//   unavailable   a function: why it cannot run here, or undefined
//   prepare(url)  creates the schema in a fresh database, before any instance is opened
//   open(url)     an instance, in a separate process:
//     enqueueBulk(payloads, options)   stores one batch; options: keys (one per payload), runAt (a Date),
//                                      queue (its index)
//     enqueue(payload)                 stores one job; resolves when it is durable
//     enqueueFrom(callers, next)       many callers, each enqueuing what next() returns until undefined, in
//                                      sequence; default: promises around enqueue
//     subscribe(count)                 adds this many subscribers of an event, whose jobs no pod runs
//     publishFrom(callers, next)       as enqueueFrom, each publishing an event
//     delivered()                      number of jobs of the subscribers
//     work(options)                    starts working; options: onJob(payload) called when a handler starts and
//                                      awaited if it returns a promise, keyed (one job of a key at a time),
//                                      queues (number of queues the pod serves), paused (until resume()).
//                                      Returns stop()
//     unfinished(queues)               whether a due job of these queues [1] is not yet finalized in the store
//     kept()                           finished jobs still stored, or undefined if completed jobs are deleted
//     age(count, days)                 inserts jobs that finished this many days ago [30, past their retention]
//     list()                           lists the newest 50 finished jobs
//     span()                           seconds from the first start to the last end in the store
//     inbox()                          starts an upload endpoint; returns its port, path, contentPath and headers
//     stock(count)                     inserts jobs of every state, in queues that no pod serves
//     serve({ onJob })                 works inside its HTTP service, on a queue that is paused until resume();
//                                      returns the port and an access token
//     receive()                        starts a webhook endpoint; returns its port, path and the sender's headers
//     received()                       number of stored webhooks
//     workflows()                      executions of workflows:
//       run(n, steps)                  starts an execution of no-op steps; may wait for its end
//       work({ onStep })               runs executions; onStep(n, name) is called when a step starts
//       unfinished()                   whether an execution that is due is not finalized in the store
//       recorded()                     numbers of completed executions and of their recorded steps
//       startWaiting(n), signal(n)     starts an execution that waits for a signal, and sends it
//       stream(n, chunks)              starts an execution that writes a stream, and iterates over it
//       suspended(count)               resolves when this many executions wait for a signal
//       sleepers(count)                inserts sleeping executions; returns their size on disk
//     close()
//
// Systems do no timing: measures.mjs times all of them in the same way.

export const systemIds = [
  "nightshift",
  "nightshift-client",
  "graphile-batched",
  "graphile-default",
  "pg-boss",
  "bullmq-postgres",
  "bullmq-redis",
  "dbos",
  "sql-limit",
  "bare-http",
  "bare-disk"
]

const usual = { store: "postgres", peer: false, unavailable: async () => undefined, prepare: async () => {} }

/** Loads a system by its id. */
export const loadSystem = async (id) => ({ ...usual, ...(await import(`./systems/${id}.mjs`)).system })
