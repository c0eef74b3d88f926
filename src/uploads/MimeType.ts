const unknown = "application/octet-stream"

const form = /^[a-z0-9!#$&^_.+-]{1,127}\/[a-z0-9!#$&^_.+-]{1,127}$/

/**
 * Returns the lower-case `type/subtype` without parameters, or `application/octet-stream` if the value is malformed.
 */
export const strip = (given: string): string => {
  const essence = given.slice(0, 256).split(";")[0]?.trim().toLowerCase() ?? ""
  return form.test(essence) ? essence : unknown
}
