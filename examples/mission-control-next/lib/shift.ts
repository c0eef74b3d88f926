import { connect } from "nightshift/client"

/** One connection pool per process: `connect` with the same arguments shares the open pool, even after a hot reload. */
export const shift = () => connect(process.env.DATABASE_URL)
