// The systems by name, and what each file under systems/ must offer.
//
//   title         how the table calls it
//   store         "postgres" (a fresh database per measurement) or "redis"
//   peer          whether it lives in peers/node_modules
//   unavailable   a function: why it cannot be measured here, or undefined
//   prepare(url)  makes the schema in a fresh database, before any instance is opened
//   open(url)     an instance, in a process of its own:
//     enqueueBulk(payloads, options)   stores one batch; options: keys (one per payload), runAt (a Date)
//     enqueue(payload)                 stores one job; resolves when it is durable
//     enqueueFrom(callers, next)       many callers, each enqueuing what next() gives until it gives nothing, one after
//                                      the other; where it is missing, they are promises around enqueue
//     work(options)                    starts working; options: onJob(payload) called where a handler starts and
//                                      awaited if it returns a promise, keyed (one job of a key at a time),
//                                      queues (how many named lines the pod serves). Returns stop()
//     unfinished()                     whether a due job is not yet finalized in the store
//     kept()                           finished jobs still stored, or undefined where completing deletes
//     age(count)                       puts finished jobs into the store that are past their retention
//     stock(count)                     puts jobs of every state into the store, in queues that nobody serves
//     serve({ onJob })                 works behind the doors of its service, on a queue that stands still until
//                                      resume(); gives the port of the doors and a token that opens them
//     receive()                        opens a door for webhooks; gives its port, path and the headers a sender needs
//     received()                       how many webhooks are stored
//     close()
//
// How anything is timed is not theirs to say: measures.mjs does that, the same way for all.

export const systemIds = [
  "nightshift",
  "nightshift-client",
  "graphile-batched",
  "graphile-default",
  "pg-boss",
  "bullmq-postgres",
  "bullmq-redis",
  "sql-limit",
  "bare-http"
]

/** One system; a name that is not listed above is a mistake of the caller. */
export const loadSystem = async (id) => (await import(`./systems/${id}.mjs`)).system
