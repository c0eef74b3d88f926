import Fastify from "fastify"
import type { Generated, Kysely } from "kysely"
import { ResultTimeoutError, type Shift } from "nightshift/client"
import { resizeImage } from "./jobs.js"

export interface Database {
  images: { id: Generated<number>; url: string }
}

const body = { type: "object", required: ["url"], properties: { url: { type: "string", maxLength: 2000 } } } as const

export const createApp = (db: Kysely<Database>, shift: Shift) => {
  const app = Fastify()

  // Stores the image and one job per size in one transaction. One statement enqueues all of them.
  app.post<{ Body: { url: string } }>("/images", { schema: { body } }, async (request, reply) => {
    const stored = await db.transaction().execute(async (tx) => {
      const { id } = await tx.insertInto("images").values(request.body).returning("id").executeTakeFirstOrThrow()
      const sizes = [200, 800, 1600].map((width) => ({ imageId: id, width }))
      const jobs = await shift.enqueueMany(resizeImage, sizes, { tx, key: ({ imageId }) => `image:${imageId}` })
      return { id, jobs: jobs.map((job) => job.id) }
    })
    return reply.code(201).send(stored)
  })

  // Waits for the result. If it takes longer, the client should ask again.
  app.get<{ Params: { job: string } }>("/results/:job", async ({ params }, reply) => {
    try {
      return await shift.result(params.job, { timeout: "5s" })
    } catch (error) {
      if (error instanceof ResultTimeoutError) return reply.code(202).send({ state: "working" })
      throw error
    }
  })

  return app
}
