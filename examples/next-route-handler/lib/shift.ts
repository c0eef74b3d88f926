import { connect } from "nightshift/client"

/** One set of connections per process: `connect` with the same arguments returns the open one, even after a hot reload. */
export const shift = () => connect(process.env.DATABASE_URL)
