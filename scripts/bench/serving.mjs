// A busy queue in a service with a full database, with or without Mission Control open.
import { share, times } from "./scale.mjs"

// A small run ends before ten requests are made, so it only checks that each request gets a response.
const visitorsAt = (jobs) => ({
  tabs: Math.max(5, Math.round(50 * share(jobs))),
  perSecond: 10 / Math.max(0.2, share(jobs))
})

/** Keeps the HTTP server open after the drain until all requests have responses. */
export const serveOf = ({ visited }) => {
  return async (bench, { jobs }) => {
    const total = times(5)(jobs)
    await bench.child("load", { prepare: true, jobs: total, stock: times(100 / 3)(jobs) })
    await bench.settle()
    let service
    const drained = new Promise((done) => {
      service = bench.start("drain", { jobs: total, asService: true }, done)
    })
    const visitors = visited ? bench.start("browse", { outside: true, ...visitorsAt(jobs) }) : undefined
    const endpoint = await service.ready
    visitors?.send({ endpoint })
    await visitors?.ready
    const before = await bench.used()
    service.send({ begin: true })
    await Promise.race([drained, service.result])
    const after = await bench.used()
    visitors?.send({ enough: true })
    const seen = await visitors?.result
    service.send({ close: true })
    return { ...(await service.result), ...seen, server: after.cpu - before.cpu }
  }
}
