// The types and errors of codecs. They mention neither Effect nor other modules, so that a program can bring a codec of its own.

/** A value after it was sealed. */
export interface SealedText {
  /** Id of the key, 1 to 64 letters, digits, _ or -. It is stored in plain text. */
  readonly key: string
  /** The sealed value in characters that JSON does not escape, such as base64. */
  readonly text: string
}

/** Seals values before they are stored, and opens them after they are read. */
export interface Codec {
  /** Seals a value, given as JSON text. Called for every value that is stored. */
  readonly seal: (json: string) => SealedText | Promise<SealedText>
  /**
   * Returns the JSON text. Throws DamagedValueError if the value was changed after it was sealed: its job is then dead. After any
   * other error, such as MissingKeyError, the job is left to other processes and tried again later.
   */
  readonly open: (sealed: SealedText) => string | Promise<string>
  /** Whether this process has a key, for `nightshift doctor`. [it has all] */
  readonly opens?: ((key: string) => boolean) | undefined
  /** Names of events whose data is stored as it is, because subscribers or waits compare it: `order.paid`, `geo.*`. [none] */
  readonly plainEvents?: ReadonlyArray<string> | undefined
  /** Opens values but seals none: while keys are introduced, or before they are removed. [false] */
  readonly openOnly?: boolean | undefined
}

/** A master key of this process. */
export interface MasterKey {
  /** Names the key in sealed values: 1 to 64 letters, digits, _ or -. */
  readonly id: string
  /** 32 random bytes, or their base64. */
  readonly key: Uint8Array | string
}

/** A wrapped data key. */
export interface WrappedKey {
  /** Id of the master key, 1 to 64 letters, digits, _ or -. */
  readonly id: string
  /** The data key as the key service encrypted it. */
  readonly wrapped: Uint8Array
}

/** A service that holds the master keys, such as a KMS. Both functions must fail rather than wait without a limit. */
export interface KeyService {
  /** Encrypts a new data key with the current master key. */
  readonly wrap: (dataKey: Uint8Array) => WrappedKey | Promise<WrappedKey>
  /** Decrypts a data key with the master key of this id. */
  readonly unwrap: (id: string, wrapped: Uint8Array) => Uint8Array | Promise<Uint8Array>
}

/** No key of this process opens the value. */
export class MissingKeyError extends Error {
  override readonly name = "MissingKeyError"

  constructor(
    /** Id of the key that sealed the value. */
    readonly key: string,
    message: string = `this process has no key ${JSON.stringify(key)}: add it to NIGHTSHIFT_SEAL_KEYS or to \`keys\``
  ) {
    super(message)
  }
}

/** The value was changed after it was sealed, or it is not what a codec made. */
export class DamagedValueError extends Error {
  override readonly name = "DamagedValueError"
}
