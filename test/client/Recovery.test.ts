import { expect, it } from "vitest"
import { z } from "zod"
import { connect, job, worker } from "../../src/client/index.js"
import { useDatabase } from "./ClientDatabase.js"

const database = useDatabase()

const pods = { ended: "0198c0de-0000-7000-8000-000000000001", alive: "0198c0de-0000-7000-8000-000000000002" }

/** Makes a job look as if a pod had claimed it and sent its last heartbeat two hours ago. */
const claimedBy = async (id: string, pod: string) => {
  await database.pool().query(
    `update nightshift.job set status = 'running', lease = $1, pod_id = $2, attempt = 1,
       started_at = now() - interval '2 hours', heartbeat_at = now() - interval '2 hours' where id = $1`,
    [id, pod]
  )
  await database
    .pool()
    .query(
      "insert into nightshift.lease (id, pod_id, claimed_at, jobs) values ($1, $2, now() - interval '2 hours', array[$1::uuid])",
      [id, pod]
    )
}

it("a worker runs the jobs of a process that was killed two hours ago as soon as it starts", async () => {
  const order = job("order", { payload: z.number() })
  await using shift = await connect(database.url(), { log: false })
  const [lost, held] = [await shift.enqueue(order, 1), await shift.enqueue(order, 2)]
  await claimedBy(lost.id, pods.ended)
  await claimedBy(held.id, pods.alive)
  await database.pool().query(
    `insert into nightshift.pod (id, version, queues, kinds, slots, host, os_pid, node_version, draining, started_at, heartbeat_at)
     values ($1, '1', '{}', '{}', '[]', 'a', 1, '20', false, now(), now())`,
    [pods.alive]
  )
  let seen: (attempt: number) => void = () => {}
  const ran = new Promise<number>((resolve) => {
    seen = resolve
  })
  await using _ = await worker(shift, { handlers: [order.handle((_payload, { attempt }) => seen(attempt))] })
  expect(await ran).toBe(1)
  expect(await shift.job(lost.id)).toMatchObject({ history: [{ outcome: "crashed" }] })
  // Its pod lives.
  expect(await shift.job(held.id)).toMatchObject({ state: "running", history: [] })
})
