/** Returns the key of a signing secret of Standard Webhooks, or undefined if the secret is malformed. */
export const keyOf = (secret: string): Buffer | undefined => {
  const text = secret.replace(/^whsec_/, "")
  const key = Buffer.from(text, "base64")
  const readsBack = key.toString("base64").replace(/=+$/, "") === text.replace(/=+$/, "")
  return readsBack && key.length >= 24 && key.length <= 64 ? key : undefined
}

/** What a malformed secret should be. The caller puts the name of the field in front. */
export const rule = "must be whsec_ followed by 24 to 64 bytes in base64, as Standard Webhooks requires"
