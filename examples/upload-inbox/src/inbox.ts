import { job, Outcome } from "nightshift/client"
import { z } from "zod"
import { folder, type ObjectStore } from "./objects.js"

/** One per uploaded file, enqueued in the transaction that stores the file (`UPLOADS_JOB_KIND=file_arrived`). */
export const fileArrived = job("file_arrived", {
  payload: z.object({
    workspace: z.string(),
    fileId: z.string(),
    name: z.string(),
    mimeType: z.string(),
    size: z.number(),
    sha256: z.string()
  }),
  queue: "files"
})

export interface Inbox {
  readonly url: string
  readonly token: string
}

/** Copies the file to the object store, then acknowledges it. The service deletes acknowledged files an hour later. */
export const handlersWith = (inbox: () => Inbox, objects: ObjectStore) => [
  fileArrived.handle(async ({ fileId, name, sha256, workspace }, { log, signal }) => {
    const { token, url } = inbox()
    const file = `${url}/uploads/${workspace}/${fileId}`
    const headers = { authorization: `Bearer ${token}` }
    const content = await fetch(`${file}/content`, { headers, signal })
    if (content.status === 404) return Outcome.dead(`file ${fileId} has expired`)
    if (!content.ok || content.body === null) throw new Error(`reading the file failed with ${content.status}`)
    // The key is derived from the file, so a second run after a crash writes the same object.
    const key = `${workspace}/${sha256.slice(0, 12)}-${name}`
    await objects.put(key, content.body, signal)
    const ack = await fetch(`${file}/ack`, { method: "POST", headers, signal })
    if (!ack.ok) throw new Error(`the acknowledgement failed with ${ack.status}`)
    log.info(`stored ${key}`)
    return { key }
  })
]

const required = (name: string): string => {
  const value = process.env[name]
  if (value === undefined) throw new Error(`${name} is not set`)
  return value
}

/** `nightshift serve --app ./src/inbox.ts` runs these. */
export const handlers = handlersWith(
  () => ({ url: required("INBOX_URL"), token: required("INBOX_TOKEN") }),
  folder(process.env.OBJECTS ?? "objects")
)
