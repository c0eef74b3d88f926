import { Effect, Predicate, Random, type Scope } from "effect"
import type { RequestFailed, RequestOptions, ServiceClient } from "../ServiceClient.js"
import { keep, type Pace, pick } from "./DemoTraffic.js"

// Uploads files for two workspaces and pulls them. A third workspace has files that no puller fetches: see
// DemoFinishedJobs.

const names = ["invoice.pdf", "photo.jpg", "scan.tiff", "orders.csv", "notes.txt", "setup.exe"] as const

const tokenFor = (service: ServiceClient, workspace: string) =>
  Effect.map(
    service.ask("POST", `/api/v1/workspaces/${workspace}/tokens`, {
      body: { label: "the demo's puller" },
      reason: `${workspace} fetches its files`
    }),
    (answer) => (Predicate.hasProperty(answer, "token") ? String(answer.token) : "")
  )

const bring = (service: ServiceClient, workspace: string, token: string) =>
  Effect.gen(function* () {
    const name = yield* pick(names)
    const size = yield* Random.nextIntBetween(200, 60_000)
    const form = new FormData()
    form.append("files", new Blob([new Uint8Array(size).fill(size % 251)]), name)
    yield* service.ask("POST", `/uploads/${workspace}`, { form, token })
  })

const idsIn = (listing: unknown): ReadonlyArray<string> => {
  const files: unknown = Predicate.hasProperty(listing, "files") ? listing.files : []
  return Array.isArray(files)
    ? files.flatMap((file: unknown) => (Predicate.hasProperty(file, "id") ? String(file.id) : []))
    : []
}

/** Pulls waiting files and acknowledges most of them, so that some stay unacknowledged. */
const fetchAll = (service: ServiceClient, workspace: string, token: string): Effect.Effect<void, RequestFailed> =>
  Effect.gen(function* () {
    const options: RequestOptions = { token }
    for (const id of idsIn(yield* service.ask("GET", `/uploads/${workspace}`, options))) {
      yield* service.ask("GET", `/uploads/${workspace}/${id}/content`, options)
      const skipsAck = (yield* Random.nextIntBetween(0, 4)) === 0
      if (!skipsAck) yield* service.ask("POST", `/uploads/${workspace}/${id}/ack`, options)
    }
  })

/** Uploads and pulls files until the Scope closes. */
export const start = (service: ServiceClient, pace: Pace): Effect.Effect<void, RequestFailed, Scope.Scope> =>
  Effect.gen(function* () {
    for (const workspace of ["acme", "globex"]) {
      const token = yield* tokenFor(service, workspace)
      const arrivals = {
        name: `files of ${workspace}`,
        first: 5,
        perSecond: 0.2,
        act: bring(service, workspace, token)
      }
      // Pullers poll at a fixed rate, independent of --rate.
      const puller = {
        name: `${workspace}'s puller`,
        first: 1,
        perSecond: 0.1,
        act: fetchAll(service, workspace, token)
      }
      yield* keep(arrivals, pace)
      yield* keep(puller, { ...pace, rate: 1 })
    }
  })
