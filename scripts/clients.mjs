// Runs the tests of the clients in other languages (clients/) against a service with an embedded PostgreSQL.
import { spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { root, start } from "./installed.mjs"

/** The tests of each client, and the program that they need. */
const clients = [
  {
    name: "python",
    needs: ["python3", "--version"],
    test: ["python3", "-m", "unittest", "discover", "-v", "-s", "tests"]
  },
  { name: "go", needs: ["go", "version"], test: ["go", "test", "-count=1", "./..."] }
]

const missing = clients.filter(({ needs: [program, ...rest] }) => spawnSync(program, rest).status !== 0)
for (const { name, needs } of missing) console.error(`The ${name} client is NOT TESTED: install ${needs[0]}.`)
if (missing.length > 0) process.exit(1)

const folder = mkdtempSync(join(tmpdir(), "nightshift-clients-"))
const secret = () => randomBytes(24).toString("base64url")
const [admin, worker, narrow] = [secret(), secret(), secret()]

const service = await start(folder, process.execPath, [join(root, "dist/nightshift.js"), "serve", "--embedded"], {
  sign: '"ui":',
  env: {
    PORT: "0",
    LOG_FORMAT: "json",
    LOG_LEVEL: "error",
    NIGHTSHIFT_DIRECTORY: join(folder, "data"),
    NIGHTSHIFT_QUEUES: "none",
    QUEUE_HEARTBEAT: "1s",
    NIGHTSHIFT_ADMIN_TOKEN: admin,
    NIGHTSHIFT_WORKER_TOKENS: `${worker}:* ${narrow}:other`
  }
})
const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(service.said())

let failed = 0
try {
  for (const { name, test } of clients) {
    const [program, ...args] = test
    console.log(`${name}: ${test.join(" ")}`)
    const { status } = spawnSync(program, args, {
      cwd: join(root, "clients", name),
      stdio: "inherit",
      env: {
        ...process.env,
        NIGHTSHIFT_URL: url,
        NIGHTSHIFT_ADMIN_TOKEN: admin,
        NIGHTSHIFT_WORKER_TOKEN: worker,
        NIGHTSHIFT_NARROW_TOKEN: narrow,
        PYTHONDONTWRITEBYTECODE: "1"
      }
    })
    if (status !== 0) failed += 1
  }
} finally {
  await service.stop("SIGTERM")
  rmSync(folder, { recursive: true, force: true })
}
process.exitCode = failed
