import type pg from "pg"

/** Every row of every table as text, with the bytes of files in hexadecimal. */
export const dump = async (client: pg.Client): Promise<string> => {
  const { rows: tables } = await client.query(
    "select tablename from pg_tables where schemaname = 'nightshift' order by 1"
  )
  const texts: Array<string> = []
  for (const { tablename } of tables) {
    const { rows } = await client.query(`select t::text as text from nightshift."${tablename}" t`)
    texts.push(...rows.map(({ text }) => `${tablename} ${text}`))
  }
  return texts.join("\n")
}

/** The rows of a dump that have a text, as it is, in JSON or in a file. */
export const linesWith = (whole: string, text: string): ReadonlyArray<string> => {
  const hex = Buffer.from(text).toString("hex")
  return whole.split("\n").filter((line) => line.toLowerCase().includes(text.toLowerCase()) || line.includes(hex))
}
