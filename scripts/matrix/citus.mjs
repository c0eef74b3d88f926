// A Citus cluster: a coordinator and two workers, from an installed PostgreSQL that has the extension.
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { define } from "./servers.mjs"

const missing = `no PostgreSQL with the Citus extension was found: install Citus (https://docs.citusdata.com), then set CITUS_BIN to the folder
that has its \`postgres\` and \`pg_config\`, such as /usr/lib/postgresql/16/bin`

/** Folder of the PostgreSQL binaries that Citus is installed in. */
const findBinaries = () => {
  const bin = process.env.CITUS_BIN ?? "/usr/lib/postgresql/16/bin"
  const said = spawnSync(join(bin, "pg_config"), ["--sharedir"], { encoding: "utf8" })
  const control = join(said.stdout?.trim() ?? "", "extension", "citus.control")
  if (said.status !== 0 || !existsSync(control)) throw new Error(missing)
  return bin
}

const settings = {
  shared_preload_libraries: "citus",
  wal_level: "logical",
  max_prepared_transactions: "200",
  max_connections: "300",
  "citus.enable_statistics_collection": "off"
}

/** Starts the three servers. Databases are joined by the tests, one by one. */
export const startCluster = async (place) => {
  const bin = findBinaries()
  const nodes = []
  for (const name of ["coordinator", "worker1", "worker2"])
    nodes.push(await define({ ...place, bin, lib: "" }, name, { settings }))
  await Promise.all(nodes.map((node) => node.start()))
  const [coordinator, ...workers] = nodes
  const stop = async () => {
    for (const node of nodes) await node.stop()
  }
  return { coordinator, workers, stop }
}
