// Node's modules for the page that runs Nightshift, and the packages that need a server: every name that the bundle imports from `node:…`,
// `@effect/platform-node`, `@effect/sql-pg`, `pg` and `yaml` comes from this file. What the page never calls throws.
import { Buffer, process } from "./globals.mjs"

const absent = (name) => () => {
  throw new Error(`${name} is not available in a browser.`)
}

// node:crypto

const primes = []
for (let n = 2; primes.length < 64; n += 1) if (primes.every((prime) => n % prime !== 0)) primes.push(n)
const fraction = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0
const start = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)))
const rounds = primes.map((prime) => fraction(Math.cbrt(prime)))
const turn = (word, by) => (word >>> by) | (word << (32 - by))

const sha256 = (message) => {
  const bytes = new Uint8Array((((message.length + 8) >> 6) + 1) << 6)
  bytes.set(message)
  bytes[message.length] = 128
  const view = new DataView(bytes.buffer)
  view.setUint32(bytes.length - 4, message.length * 8)
  const sum = [...start]
  for (let block = 0; block < bytes.length; block += 64) {
    const words = rounds.map((_, at) => (at < 16 ? view.getInt32(block + at * 4) : 0))
    for (let at = 16; at < 64; at += 1) {
      const [a, b] = [words[at - 15], words[at - 2]]
      const low = turn(a, 7) ^ turn(a, 18) ^ (a >>> 3)
      const high = turn(b, 17) ^ turn(b, 19) ^ (b >>> 10)
      words[at] = (words[at - 16] + low + words[at - 7] + high) | 0
    }
    let [a, b, c, d, e, f, g, h] = sum
    for (let at = 0; at < 64; at += 1) {
      const high = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)
      const first = (h + high + ((e & f) ^ (~e & g)) + rounds[at] + words[at]) | 0
      const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0
      ;[a, b, c, d, e, f, g, h] = [(first + second) | 0, a, b, c, (d + first) | 0, e, f, g]
    }
    for (const [at, word] of [a, b, c, d, e, f, g, h].entries()) sum[at] = (sum[at] + word) | 0
  }
  const out = Buffer.alloc(32)
  const result = new DataView(out.buffer)
  for (const [at, word] of sum.entries()) result.setInt32(at * 4, word)
  return out
}

/** Ids are made with MD5, whose place the first half of SHA-256 takes here. */
export const createHash = (algorithm) => {
  const pieces = []
  const hash = {
    update: (piece) => {
      pieces.push(Buffer.from(piece))
      return hash
    },
    digest: (encoding) => {
      const sum = sha256(Buffer.concat(pieces)).subarray(0, algorithm === "md5" ? 16 : 32)
      return encoding === undefined ? sum : sum.toString(encoding)
    }
  }
  return hash
}
export const createHmac = absent("createHmac")
export const createCipheriv = absent("createCipheriv")
export const createDecipheriv = absent("createDecipheriv")
export const createSecretKey = absent("createSecretKey")
export const randomBytes = (size) => crypto.getRandomValues(Buffer.alloc(size))
export const randomUUID = () => crypto.randomUUID()
export const timingSafeEqual = (a, b) => Buffer.from(a).equals(b)

// node:stream

/** The part of a stream that bodies and streams of events use. */
export class Readable {
  readableHighWaterMark
  readableLength = 0
  readableEnded = false
  destroyed = false
  #pieces = []
  #isComplete = false
  #listeners = []

  constructor({ highWaterMark = 64 * 1024 } = {}) {
    this.readableHighWaterMark = highWaterMark
  }
  static from(pieces) {
    const stream = new Readable()
    for (const piece of pieces) stream.push(piece)
    stream.push(null)
    return stream
  }
  static fromWeb(body) {
    const stream = new Readable()
    const reader = body.getReader()
    const pump = async () => {
      for (;;) {
        const { done, value } = await reader.read()
        stream.push(done ? null : Buffer.from(value))
        if (done) return
      }
    }
    pump().catch(() => stream.destroy())
    return stream
  }
  _read() {}
  push(piece) {
    if (piece === null) this.#isComplete = true
    else {
      const bytes = Buffer.from(piece)
      this.#pieces.push(bytes)
      this.readableLength += bytes.length
    }
    queueMicrotask(() => this.emit("readable"))
    return true
  }
  read() {
    const piece = this.#pieces.shift()
    if (piece !== undefined) {
      this.readableLength -= piece.length
      this._read()
      return piece
    }
    if (this.#isComplete && !this.readableEnded) {
      this.readableEnded = true
      this.emit("end")
      this.emit("close")
    }
    return null
  }
  destroy() {
    if (this.destroyed) return this
    this.destroyed = true
    this.emit("close")
    return this
  }
  on(event, run) {
    this.#listeners.push({ event, run })
    return this
  }
  once(event, run) {
    const once = (...given) => {
      this.off(event, run)
      run(...given)
    }
    this.#listeners.push({ event, run, once })
    return this
  }
  off(event, run) {
    this.#listeners = this.#listeners.filter((each) => each.event !== event || each.run !== run)
    return this
  }
  emit(event) {
    for (const { event: heard, once, run } of this.#listeners) if (heard === event) (once ?? run)()
  }
  async *[Symbol.asyncIterator]() {
    for (;;) {
      const piece = this.read()
      if (piece !== null) yield piece
      else if (this.readableEnded || this.destroyed) return
      else await new Promise((resolve) => this.once("readable", resolve).once("close", resolve))
    }
  }
}
export const pipeline = absent("pipeline")

// node:async_hooks

/** Follows code until its first await. It only detects steps inside of steps. */
export class AsyncLocalStorage {
  #store
  run(store, code) {
    const before = this.#store
    this.#store = store
    try {
      return code()
    } finally {
      this.#store = before
    }
  }
  getStore() {
    return this.#store
  }
  disable() {}
}

// node:util, node:console, node:os, node:perf_hooks

export const inspect = (value) => (typeof value === "string" ? value : JSON.stringify(value))
export const isDeepStrictEqual = (a, b) => JSON.stringify(a) === JSON.stringify(b)
export const Console = class {}
export const hostname = () => "this page"
export const monitorEventLoopDelay = absent("monitorEventLoopDelay")

// node:net and node:http: there is no network. Addresses of clients are never compared.

export class BlockList {
  addAddress() {}
  addRange() {}
  addSubnet() {}
  check() {
    return false
  }
}
export const isIP = () => 0
export const isIPv4 = () => false
export const isIPv6 = () => false
export const lookup = absent("lookup")
export class Resolver {}
export const request = absent("request")
export class Agent {}
export const toServerResponse = absent("toServerResponse")
export const toIncomingMessage = absent("toIncomingMessage")

// node:fs, node:path, node:url, node:module: the package finds its own version, and nothing else is a file.

const manifest = JSON.stringify({ name: "nightshift", version: globalThis.nightshiftVersion ?? "0.0.0" })
export const existsSync = (file) => file.endsWith("/package.json")
export const readFileSync = (file) => (existsSync(file) ? manifest : absent(`The file ${file}`)())
export const constants = {}
export const open = absent("A file")
export const join = (...parts) => parts.join("/")
export const dirname = (path) => path.replace(/\/[^/]*$/, "")
export const fileURLToPath = () => "/nightshift/try.js"
export const createRequire = () => absent("require")

// PostgreSQL, its driver, and the reader of bots.yaml: the page has none of them.

export class EmbeddedPostgres {}

export default { Client: class {}, Pool: class {}, Query: class {} }
export const PgClient = undefined
export const layerFromPool = absent("PostgreSQL")
export class LineCounter {}
export const parseDocument = absent("yaml")
export const visit = absent("yaml")

export { process }
