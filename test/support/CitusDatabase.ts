import pg from "pg"

// A database on a Citus cluster exists on every node. Its Nightshift schema is created as a distributed schema, which
// lives whole on one worker. Databases of a cluster cannot be cloned, so each one is migrated by itself.

/** URLs of the workers, if TEST_DATABASE_URL is a coordinator. */
const workers = (process.env.TEST_CITUS_WORKERS ?? "").split(",").filter((url) => url !== "")

export const isCitus = workers.length > 0

/** Runs statements one by one: several in one string would be one transaction. */
const run = async (url: string, statements: ReadonlyArray<string>) => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}

const onDatabase = (url: string, name: string) => {
  const changed = new URL(url)
  changed.pathname = `/${name}`
  return changed.href
}

const address = (url: string) => `'${new URL(url).hostname}', ${new URL(url).port}`

/** Creates a database on every node and joins the nodes. New schemas are distributed schemas. */
export const create = async (coordinator: string, name: string): Promise<void> => {
  const nodes = [coordinator, ...workers]
  await Promise.all(nodes.map((url) => run(url, [`create database ${name}`])))
  await Promise.all(nodes.map((url) => run(onDatabase(url, name), ["create extension citus"])))
  await run(onDatabase(coordinator, name), [
    `select citus_set_coordinator_host(${address(coordinator)})`,
    ...workers.map((url) => `select citus_add_node(${address(url)})`),
    `alter database ${name} set citus.enable_schema_based_sharding = on`
  ])
}

export const drop = async (coordinator: string, name: string): Promise<void> => {
  for (const url of [coordinator, ...workers]) await run(url, [`drop database if exists ${name} with (force)`])
}
