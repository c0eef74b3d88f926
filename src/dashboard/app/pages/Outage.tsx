import { ApiError, isDatabaseDown } from "../Api"
import { Entrance } from "../parts/Entrance"

/** The error, if it says that the service or its database is down, so that a token would not help. */
export const outageOf = (error: unknown): ApiError | undefined =>
  error instanceof ApiError && (error.status === 0 || error.status >= 500) ? error : undefined

/** In place of the login while it could not succeed. */
export const Outage = ({ error }: { readonly error: ApiError }) => (
  <Entrance>
    <div class="failure" role="alert">
      {isDatabaseDown(error) ? "The service is up, its database is not." : error.message}
    </div>
    <p class="quiet small">This page tries again every few seconds. The service's log has the details.</p>
  </Entrance>
)
