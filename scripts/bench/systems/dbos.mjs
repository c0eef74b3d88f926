// DBOS: workflows started and run in one process, with its default pool and its fastest start method.
import { setTimeout as sleep } from "node:timers/promises"
import pg from "pg"
import { peer } from "../peers.mjs"

const configOf = (url) => ({ name: "bench", systemDatabaseUrl: url, logLevel: "error", systemDatabasePoolSize: 20 })

const launched = async (url) => {
  const { DBOS } = await peer("@dbos-inc/dbos-sdk")
  DBOS.setConfig(configOf(url))
  return DBOS
}

const openWorkflows = async (url) => {
  const DBOS = await launched(url)
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  let onStep = () => {}
  const body = async (n, steps) => {
    for (let index = 1; index <= steps; index++) {
      const name = `step ${index}`
      await DBOS.runStep(async () => onStep(n, name), { name })
    }
  }
  const flow = DBOS.registerWorkflow(body, { name: "steps" })
  let receiving = 0
  const waiting = DBOS.registerWorkflow(
    async (n) => {
      receiving += 1
      await DBOS.recv("go", 3_600)
      await DBOS.runStep(async () => onStep(n, "next"), { name: "next" })
      return n
    },
    { name: "waiting" }
  )
  const handles = new Map()
  const streaming = DBOS.registerWorkflow(
    async (chunks) => {
      for (let token = 0; token < chunks; token += 1) await DBOS.writeStream("tokens", `token ${token}`)
      await DBOS.closeStream("tokens")
    },
    { name: "streaming" }
  )
  return {
    stream: async function* (n, chunks) {
      const { workflowID } = await DBOS.startWorkflow(streaming, { workflowID: `streaming-${n}` })(chunks)
      yield* DBOS.readStream(workflowID, "tokens")
    },
    // Waits for the end, which limits concurrent executions to the number of callers.
    run: async (n, steps) => {
      const handle = await DBOS.startWorkflow(flow, { workflowID: `steps-${n}` })(n, steps)
      await handle.getResult()
    },
    startWaiting: async (n) => {
      handles.set(n, await DBOS.startWorkflow(waiting, { workflowID: `waiting-${n}` })(n))
    },
    suspended: async (count) => {
      while (receiving < count) await sleep(20)
    },
    signal: (n) => DBOS.send(`waiting-${n}`, "go", "go"),
    result: (n) => handles.get(n).getResult(),
    work: async (given) => {
      onStep = given.onStep
      await DBOS.launch()
    },
    unfinished: async () => {
      const query = "select exists (select from dbos.workflow_status where status <> 'SUCCESS') as some"
      return (await pool.query(query)).rows[0].some
    },
    recorded: async () => {
      const query = `select (select count(*)::int from dbos.workflow_status where status = 'SUCCESS') as executions,
        (select count(*)::int from dbos.operation_outputs) as steps`
      return (await pool.query(query)).rows[0]
    }
  }
}

export const system = {
  title: "DBOS",
  peer: true,
  prepare: async (url) => {
    const DBOS = await launched(url)
    await DBOS.launch()
    await DBOS.shutdown()
  },
  open: async (url) => ({ workflows: () => openWorkflows(url) })
}
