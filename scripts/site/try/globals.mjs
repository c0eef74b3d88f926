// Node's globals for the page that runs Nightshift. esbuild imports them where the code uses them.

const base64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))
const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")

const readers = {
  utf8: (text) => new TextEncoder().encode(text),
  hex: (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16)),
  base64: (text) => {
    const plain = text
      .replaceAll("-", "+")
      .replaceAll("_", "/")
      .replace(/[^A-Za-z0-9+/]/g, "")
    return Uint8Array.from(atob(plain), (character) => character.charCodeAt(0))
  }
}
const writers = {
  utf8: (bytes) => new TextDecoder().decode(bytes),
  hex: hexOf,
  base64,
  base64url: (bytes) => base64(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")
}

export class Buffer extends Uint8Array {
  static from(given, encoding = "utf8") {
    const bytes = typeof given === "string" ? (readers[encoding] ?? readers.base64)(given) : given
    const made = new Buffer(bytes.byteLength ?? bytes.length)
    made.set(bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : bytes)
    return made
  }
  static alloc(size) {
    return new Buffer(size)
  }
  static allocUnsafe(size) {
    return new Buffer(size)
  }
  static byteLength(given) {
    return typeof given === "string" ? readers.utf8(given).length : given.byteLength
  }
  static compare(left, right) {
    const place = left.findIndex((byte, at) => byte !== right[at])
    return Math.sign(place < 0 ? left.length - right.length : left[place] - (right[place] ?? -1))
  }
  static isBuffer(given) {
    return given instanceof Buffer
  }
  static concat(pieces) {
    const whole = new Buffer(pieces.reduce((sum, { length }) => sum + length, 0))
    let at = 0
    for (const piece of pieces) {
      whole.set(piece, at)
      at += piece.length
    }
    return whole
  }
  copy(target, at = 0, start = 0, end = this.length) {
    target.set(this.subarray(start, end), at)
  }
  equals(other) {
    return hexOf(this) === hexOf(other)
  }
  toString(encoding = "utf8") {
    return writers[encoding](this)
  }
}

const nothing = () => {}
export const process = {
  env: {},
  argv: [],
  version: "in your browser",
  versions: {},
  platform: "browser",
  pid: 1,
  cwd: () => "/",
  cpuUsage: () => ({ user: 0, system: 0 }),
  memoryUsage: Object.assign(() => ({ rss: 0, heapUsed: 0 }), { rss: () => 0 }),
  uptime: () => performance.now() / 1000,
  nextTick: (run, ...given) => queueMicrotask(() => run(...given)),
  on: nothing,
  once: nothing,
  off: nothing,
  stderr: { write: (text) => console.error(text) },
  stdout: { write: (text) => console.log(text) }
}

// A message runs after all promises that are ready, as the next turn of node's event loop does.
const { port1, port2 } = new MessageChannel()
const turns = []
port1.onmessage = () => turns.shift()()
export const setImmediate = (run, ...given) => {
  turns.push(() => run(...given))
  port2.postMessage(undefined)
}
