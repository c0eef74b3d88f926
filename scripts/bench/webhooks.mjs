// Measures webhook intake: the receiving service and the timed sender.
import { openSender, updateOf } from "./sender.mjs"

/** Receives webhooks until killed. */
export const receive = async (instance, _, { send }) => {
  await send({ ready: await instance.receive() })
  return new Promise(() => {})
}

/** Delivers webhooks over keep-alive connections, one at a time per connection. */
export const deliver = async (instance, { connections, headers, jobs, path, port }) => {
  const warming = Math.ceil(jobs / 10)
  const senders = await Promise.all(Array.from({ length: connections }, () => openSender({ headers, path, port })))
  let next = 0
  const deliverUpTo = async (sender, count) => {
    while (next < count) await sender.deliver(updateOf(++next))
  }
  await Promise.all(senders.map((sender) => deliverUpTo(sender, warming)))
  const begun = performance.now()
  await Promise.all(senders.map((sender) => deliverUpTo(sender, warming + jobs)))
  const seconds = (performance.now() - begun) / 1000
  for (const sender of senders) sender.close()
  const stored = await instance.received()
  if (stored !== warming + jobs) throw new Error(`${stored} webhooks are stored, not ${warming + jobs}`)
  return { jobs, seconds, value: jobs / seconds }
}
