// Follows docs/operate/backup.md: dump, restore into an empty database, and the commands to run before workers start.
import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { nightshift } from "./journey.mjs"
import { onDatabase, query } from "./servers.mjs"

const states = "select status, count(*)::int as count from nightshift.job group by 1 order by 1"

const must = (what, { code, output }) => {
  if (code !== 0) throw new Error(`${what} ended with code ${code}: ${output}`)
  return output
}

const run = (program, args) => {
  const { error, status, stderr } = spawnSync(program, args, { encoding: "utf8" })
  if (error !== undefined)
    throw new Error(`${program} cannot be run: install postgresql-client (apt-get install postgresql-client).`)
  if (status !== 0) throw new Error(`${program} ended with code ${status}: ${stderr}`)
}

/** Backs up the server's database, restores it beside, and returns the restored counts. */
export const backUpAndRestore = async (server, base) => {
  await server.query(
    "select nightshift.enqueue(kind => 'send_receipt', payload => '{}', queue => 'mail', force => true) from generate_series(1, 50)"
  )
  const before = await server.query(states)
  const file = join(base, "shop.dump")
  run("pg_dump", ["--format=custom", `--file=${file}`, server.url])
  await server.query("create database shop_restored")
  const restored = onDatabase(server.url, "shop_restored")
  run("pg_restore", ["--no-owner", "--exit-on-error", `--dbname=${restored}`, file])
  const options = { cwd: base, env: { DATABASE_URL: restored, NIGHTSHIFT_ADMIN_TOKEN: "matrix" } }
  const call = async (...args) => must(`nightshift ${args.join(" ")}`, await nightshift(args, options))
  await call("migrate")
  await call("queues", "list")
  await call("queues", "pause", "ledger")
  const listed = await call("jobs", "list", "--state", "pending")
  if (!listed.includes("send_receipt")) throw new Error(`the restored pending jobs are not listed: ${listed}`)
  const cancelled = await call("jobs", "cancel", "--kind", "send_receipt", "--state", "pending", "--dry-run")
  if (!cancelled.includes("50")) throw new Error(`50 jobs should match: ${cancelled}`)
  await call("queues", "resume", "ledger")
  await call("doctor")
  const after = await query(restored, states)
  if (JSON.stringify(after) !== JSON.stringify(before))
    throw new Error("the restored jobs differ from those of the backup")
  return before.map(({ count, status }) => `${count} ${status}`).join(", ")
}
