// The packed package in a project of its own: runs commands, packs, starts the service. For test:install and
// test:runtimes.
import { execFile, spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

export const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** Runs a command to its end, at most three minutes. */
export const run = (cwd, file, args, env = {}) =>
  new Promise((done) => {
    execFile(
      file,
      args,
      { cwd, env: { ...process.env, ...env }, maxBuffer: 1e8, timeout: 180_000 },
      (error, stdout, stderr) => done({ code: error === null ? 0 : (error.code ?? 1), stdout, stderr })
    )
  })

/** The same; throws if the command fails. */
export const must = async (...args) => {
  const result = await run(...args)
  if (result.code !== 0) throw new Error(`${args[1]} ${args[2].join(" ")}\n${result.stdout}${result.stderr}`)
  return result
}

/** Packs dist/ as it is. */
export const pack = async (folder, from = root) => {
  const packed = await must(from, "npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", folder])
  const [{ filename, files, size, unpackedSize }] = JSON.parse(packed.stdout)
  return { filename, files, size, tarball: join(folder, filename), unpackedSize }
}

/** The file that `npx nightshift` runs. */
export const command = (cwd) => join(cwd, "node_modules", ".bin", "nightshift")

/**
 * Starts a process and waits until it has printed `sign`. `stop` sends a signal and returns the exit code. After ten
 * minutes the process is killed.
 */
export const start = async (cwd, file, args, { env = {}, sign }) => {
  const child = spawn(file, args, { cwd, env: { ...process.env, ...env }, timeout: 600_000, killSignal: "SIGKILL" })
  let said = ""
  const ended = new Promise((done) => child.once("close", (code, signal) => done(code ?? signal)))
  const ready = new Promise((done) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        said += chunk
        if (said.includes(sign)) done("ready")
      })
    }
  })
  child.once("error", (error) => {
    said += error.message
  })
  if ((await Promise.race([ready, ended])) !== "ready") throw new Error(`${file} ${args.join(" ")} ended\n${said}`)
  const stop = (signal) => {
    child.kill(signal)
    return ended
  }
  return { said: () => said, stop }
}

/** Starts the service on an embedded PostgreSQL, with `file` and its first arguments as the command. */
export const serve = async (cwd, [file, ...first], app, env = {}) => {
  const service = await start(cwd, file, [...first, "serve", "--embedded", "--app", app], {
    env: { PORT: "0", ...env },
    sign: "Stop it with"
  })
  const stored = (name) => readFileSync(join(cwd, ".nightshift", name), "utf8").trim()
  const databaseUrl = `postgres://postgres:${stored("password")}@127.0.0.1:${stored("port")}/postgres`
  return { ...service, databaseUrl, url: /http:\/\/[\d.]+:\d+/.exec(service.said())[0] }
}
