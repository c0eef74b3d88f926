const unknown = "application/octet-stream"

const form = /^[a-z0-9!#$&^_.+-]{1,127}\/[a-z0-9!#$&^_.+-]{1,127}$/

/** `type/subtype` of what a client calls its content, without parameters; octets where it is nothing of that form. */
export const strip = (given: string): string => {
  const essence = given.slice(0, 256).split(";")[0]?.trim().toLowerCase() ?? ""
  return form.test(essence) ? essence : unknown
}
