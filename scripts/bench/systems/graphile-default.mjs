import { graphile } from "./graphile.mjs"

export const system = graphile(false)
