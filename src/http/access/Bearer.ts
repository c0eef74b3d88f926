export { isSame as sameSecret } from "../../gateway/ConstantTime.js"

/** Returns the token of an `Authorization: Bearer` header. */
export const tokenOf = (authorization: string | undefined): string | undefined =>
  /^Bearer +(\S+) *$/i.exec(authorization ?? "")?.[1]
