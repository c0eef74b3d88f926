// The entry point `nightshift/codec`: seals what is stored. It needs no other package and no database.

export {
  type Codec,
  DamagedValueError,
  type KeyService,
  type MasterKey,
  MissingKeyError,
  type SealedText,
  type WrappedKey
} from "./Codec.js"
export { parseKeys, type SealOptions, seal } from "./Seal.js"
