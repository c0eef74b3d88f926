// A Citus cluster: a coordinator and two workers, from an installed PostgreSQL that has the extension.
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { define, execute, onDatabase } from "./servers.mjs"

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

const address = (url) => `'${new URL(url).hostname}', ${new URL(url).port}`

/** Creates a database on every node and joins the nodes. Schemas created there are distributed by default. */
export const createDatabase = async (coordinator, workers, name) => {
  const nodes = [coordinator, ...workers]
  await Promise.all(nodes.map((url) => execute(url, [`create database ${name}`])))
  await Promise.all(nodes.map((url) => execute(onDatabase(url, name), ["create extension citus"])))
  await execute(onDatabase(coordinator, name), [
    `select citus_set_coordinator_host(${address(coordinator)})`,
    ...workers.map((url) => `select citus_add_node(${address(url)})`)
  ])
  await Promise.all(
    nodes.map((url) => execute(url, [`alter database ${name} set citus.enable_schema_based_sharding = on`]))
  )
}

export const dropDatabase = async (coordinator, workers, name) => {
  for (const url of [coordinator, ...workers]) await execute(url, [`drop database if exists ${name} with (force)`])
}

/** Starts the three servers. Databases join them one by one. */
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
  const [row] = await coordinator.query(
    "select default_version as version from pg_available_extensions where name = 'citus'"
  )
  return { coordinator, workers, stop, version: row.version }
}
