import { createSecretKey } from "node:crypto"
import { type Codec, DamagedValueError, type KeyService, type MasterKey, type SealedText } from "./Codec.js"
import { compress, decompress } from "./Compression.js"
import { after, type DataKey, DataKeys, decrypt, encrypt, serviceOf } from "./DataKeys.js"

// The text of a sealed value: version, compression, wrapped data key, and the nonce with the encrypted JSON and its tag.

const version = "1"

/** How values are sealed. */
export interface SealOptions {
  /** Master keys, of which the first one seals and all open; or a service that holds them. */
  readonly keys: ReadonlyArray<MasterKey> | KeyService
  /** Compresses values of more than `over` bytes before they are encrypted. [no compression] */
  readonly compress?:
    | {
        /** Size of the JSON text in bytes. */
        readonly over: number
      }
    | undefined
  /** Names of events whose data is stored as it is, because subscribers or waits compare it: `order.paid`, `geo.*`. [none] */
  readonly plainEvents?: ReadonlyArray<string> | undefined
  /** Opens values but seals none: while keys are introduced, or before they are removed. [false] */
  readonly openOnly?: boolean | undefined
  /** When a process makes a new data key. [65,536 values or 10 minutes] */
  readonly renew?:
    | {
        /** Number of values after which the key is replaced. [65,536] */
        readonly values?: number | undefined
        /** Age at which the key is replaced, in minutes. [10] */
        readonly minutes?: number | undefined
      }
    | undefined
}

const keyId = /^[A-Za-z0-9_-]{1,64}$/

const refuse = (what: string, rule: string): never => {
  throw new RangeError(`${what} ${rule}.`)
}

const bytesOf = ({ key }: MasterKey): Buffer =>
  typeof key === "string" ? Buffer.from(key.trim(), "base64") : Buffer.from(key)

const checkedKeys = (keys: ReadonlyArray<MasterKey>) => {
  if (keys.length === 0) refuse("keys", "must have at least one key")
  const ids = new Set<string>()
  return keys.map((given, index) => {
    const { id } = given
    // Without the id: if the two are swapped, it is the key.
    if (typeof id !== "string" || !keyId.test(id))
      refuse(`keys[${index}].id`, "must be 1 to 64 letters, digits, _ or -")
    if (ids.has(id)) refuse(`keys[${index}].id`, `is used twice: ${JSON.stringify(id)}`)
    ids.add(id)
    const bytes = bytesOf(given)
    if (bytes.length !== 32)
      refuse(
        `keys[${index}].key`,
        `must be 32 bytes or their base64, got ${bytes.length} bytes. Make one with: openssl rand -base64 32`
      )
    return { id, key: createSecretKey(bytes) }
  })
}

const positive = (name: string, value: number | undefined, fallback: number): number => {
  if (value !== undefined && !(value > 0)) refuse(name, `must be greater than 0, got ${value}`)
  return value ?? fallback
}

/** Reads keys as in NIGHTSHIFT_SEAL_KEYS: `k2:<base64>,k1:<base64>`. Throws a RangeError that does not contain the keys. */
export const parseKeys = (text: string): ReadonlyArray<MasterKey> =>
  text
    .split(/[\s,]+/)
    .filter((word) => word !== "")
    .map((word) => {
      const colon = word.indexOf(":")
      return { id: word.slice(0, Math.max(0, colon)), key: word.slice(colon + 1) }
    })

const isList = (keys: SealOptions["keys"]): keys is ReadonlyArray<MasterKey> => Array.isArray(keys)

/**
 * Makes a codec that encrypts values with AES-256-GCM. Each process makes a data key, stores it beside the values, wrapped by
 * the first master key, and replaces it every few minutes.
 *
 * @example
 * ```ts
 * import { connect } from "nightshift/client"
 * import { seal } from "nightshift/codec"
 *
 * const key = "3NWkGsCQdsnaJ7J+H2o6ZBtFvBJFUHZ3dkyzvKnjXvM="
 * const shift = await connect("postgres://localhost/app", { codec: seal({ keys: [{ id: "k1", key }] }) })
 * await shift.close()
 * ```
 */
export const seal = (options: SealOptions): Codec => {
  const { compress: compression, keys, openOnly, plainEvents, renew } = options
  const own = isList(keys) ? checkedKeys(keys) : undefined
  const over = compression === undefined ? Number.POSITIVE_INFINITY : compression.over
  if (!(over >= 0)) refuse("compress.over", `must be a number of bytes, got ${over}`)
  const dataKeys = new DataKeys(own === undefined ? (keys as KeyService) : serviceOf(own), {
    values: positive("renew.values", renew?.values, 65_536),
    millis: positive("renew.minutes", renew?.minutes, 10) * 60_000
  })

  const sealWith = (json: string, { id, key, wrapped }: DataKey): SealedText => {
    const plain = Buffer.from(json)
    const [how, data] = plain.length > over ? compress(plain) : (["n", plain] as const)
    const header = `${version}.${how}.${wrapped}`
    return { key: id, text: `${header}.${encrypt(key, data, `${id}.${header}`).toString("base64url")}` }
  }

  return {
    seal: (json) => {
      const key = dataKeys.next()
      return after(key, (made) => sealWith(json, made))
    },
    open: ({ key: id, text }) => {
      const [number, how = "", wrapped = "", sealed, ...more] = text.split(".")
      // A later release may write another version: not damaged, but not for this process.
      if (number !== version && /^\d+$/.test(number ?? ""))
        throw new Error(`the value has version ${number} of the sealed form, which is newer than this process's code`)
      if (number !== version || sealed === undefined || more.length > 0 || !/^[ngz]$/.test(how))
        throw new DamagedValueError("it does not have the form of a sealed value")
      const openWith = (key: DataKey["key"]) => {
        let data: Buffer
        try {
          data = decrypt(key, Buffer.from(sealed, "base64url"), `${id}.${version}.${how}.${wrapped}`)
        } catch {
          throw new DamagedValueError("it was changed after it was sealed: its authentication tag does not match")
        }
        return decompress(how, data).toString()
      }
      const key = dataKeys.open(id, wrapped)
      return after(key, openWith)
    },
    ...(own === undefined ? {} : { opens: (key: string) => own.some(({ id }) => id === key) }),
    plainEvents,
    openOnly
  }
}
