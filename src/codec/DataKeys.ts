import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from "node:crypto"
import { type KeyService, MissingKeyError } from "./Codec.js"

// Envelope encryption: values are encrypted with a random data key, which is stored beside each value, wrapped by a master key.

const algorithm = "aes-256-gcm"
const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16

/** A data key and how it is stored. */
export interface DataKey {
  readonly key: KeyObject
  /** Id of its master key. */
  readonly id: string
  /** The wrapped key in base64url. */
  readonly wrapped: string
}

const associated = (text: string) => Buffer.from(`nightshift/${text}`)

/** The nonce, the encrypted data and the tag. `context`: what the data belongs to, which is not stored. */
export const encrypt = (key: KeyObject, data: Uint8Array, context: string): Buffer => {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes })
  cipher.setAAD(associated(context))
  return Buffer.concat([nonce, cipher.update(data), cipher.final(), cipher.getAuthTag()])
}

/** Throws if key, context or data are not those of `encrypt`. */
export const decrypt = (key: KeyObject, sealed: Buffer, context: string): Buffer => {
  const end = sealed.length - tagBytes
  if (end < nonceBytes) throw new Error("the value is too short")
  const decipher = createDecipheriv(algorithm, key, sealed.subarray(0, nonceBytes), { authTagLength: tagBytes })
  decipher.setAAD(associated(context))
  decipher.setAuthTag(sealed.subarray(end))
  return Buffer.concat([decipher.update(sealed.subarray(nonceBytes, end)), decipher.final()])
}

/** A service over keys of this process. The first one wraps, all unwrap. */
export const serviceOf = (keys: ReadonlyArray<{ readonly id: string; readonly key: KeyObject }>): KeyService => {
  const known = new Map(keys.map(({ id, key }) => [id, key]))
  return {
    wrap: (dataKey) => {
      const [first] = keys
      if (first === undefined) throw new Error("there is no key")
      return { id: first.id, wrapped: encrypt(first.key, dataKey, `data key ${first.id}`) }
    },
    unwrap: (id, wrapped) => {
      const key = known.get(id)
      if (key === undefined) throw new MissingKeyError(id)
      try {
        return decrypt(key, Buffer.from(wrapped), `data key ${id}`)
      } catch {
        // Not a damaged value: with a wrong key under this id, every job would die.
        throw new MissingKeyError(
          id,
          `the key ${JSON.stringify(id)} of this process did not seal it: correct the key in NIGHTSHIFT_SEAL_KEYS or \`keys\``
        )
      }
    }
  }
}

/** Unwrapped keys that are kept. Each process makes one every few minutes. */
const cached = 2_000

/** When a data key is replaced. */
export interface Renewal {
  readonly values: number
  readonly millis: number
}

/** A value or the promise of one: most codecs answer at once. */
export type Soon<A> = A | Promise<A>

export const after = <A, B>(value: Soon<A>, use: (value: A) => Soon<B>): Soon<B> =>
  value instanceof Promise ? value.then(use) : use(value)

/** The data keys of a process: the one that it seals with, and those that it has unwrapped. */
export class DataKeys {
  private current: { readonly key: DataKey; left: number; readonly until: number } | undefined
  private coming: Promise<DataKey> | undefined
  private readonly opened = new Map<string, KeyObject | Promise<KeyObject>>()

  constructor(
    private readonly service: KeyService,
    private readonly renewal: Renewal
  ) {}

  /** The key to seal the next value with. */
  next(): DataKey | Promise<DataKey> {
    const { current } = this
    if (current !== undefined && current.left > 0 && performance.now() < current.until) {
      current.left -= 1
      return current.key
    }
    if (this.coming !== undefined) return this.coming
    const bytes = randomBytes(keyBytes)
    const made = after(this.service.wrap(bytes), ({ id, wrapped }): DataKey => {
      const key = { key: createSecretKey(bytes), id, wrapped: Buffer.from(wrapped).toString("base64url") }
      this.current = { key, left: this.renewal.values - 1, until: performance.now() + this.renewal.millis }
      this.remember(`${id}.${key.wrapped}`, key.key)
      return key
    })
    if (!(made instanceof Promise)) return made
    this.coming = made.finally(() => {
      this.coming = undefined
    })
    return this.coming
  }

  /** The key that sealed a value. */
  open(id: string, wrapped: string): KeyObject | Promise<KeyObject> {
    const name = `${id}.${wrapped}`
    const known = this.opened.get(name)
    if (known !== undefined) return known
    const found = after(this.service.unwrap(id, Buffer.from(wrapped, "base64url")), (bytes) => {
      // Opening with it would fail like that of a damaged value, and every job would die.
      if (!(bytes instanceof Uint8Array) || bytes.length !== keyBytes)
        throw new Error(`\`unwrap\` returned no data key of ${keyBytes} bytes for the key ${JSON.stringify(id)}`)
      return createSecretKey(bytes)
    })
    this.remember(name, found)
    if (found instanceof Promise)
      found.then(
        (key) => this.opened.set(name, key),
        () => this.opened.delete(name)
      )
    return found
  }

  private remember(name: string, key: KeyObject | Promise<KeyObject>): void {
    const [oldest] = this.opened.keys()
    if (this.opened.size >= cached && oldest !== undefined) this.opened.delete(oldest)
    this.opened.set(name, key)
  }
}
