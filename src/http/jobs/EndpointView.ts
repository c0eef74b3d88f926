import { Schema } from "effect"
import * as HttpUrl from "../../core/HttpUrl.js"
import { DisabledBecause, type Endpoint, Standing, standingOf } from "../../queue/endpoints/Endpoint.js"
import * as Instant from "../Instant.js"
import * as ResponseFields from "../ResponseFields.js"

const fields = {
  id: Schema.UUID.annotations({ description: "Also the key of the jobs that send to the endpoint." }),
  createdAt: Instant.Moment,
  url: Schema.String.annotations({ description: "Viewers see only its origin." }),
  customer: Schema.NullOr(Schema.String),
  description: Schema.String,
  types: Schema.NullOr(Schema.Array(Schema.String)).annotations({ description: "Null: webhooks of all types." }),
  standing: Standing,
  disabledAt: Schema.NullOr(Instant.Moment),
  disabledBecause: Schema.NullOr(DisabledBecause),
  firstFailedAt: Schema.NullOr(Instant.Moment).annotations({
    description: "The first failed attempt since the last success. Null after a success."
  }),
  failures: Schema.Int.annotations({ description: "Failed attempts since the last success." }),
  lastError: Schema.NullOr(Schema.String)
}

/** An endpoint in API responses. Every field is present; null if it has no value. */
export const EndpointView = Schema.Struct(fields).annotations({ identifier: "Endpoint" })
export type EndpointView = typeof EndpointView.Type

/** An endpoint with a new secret. */
export const EndpointWithSecretView = Schema.Struct({
  ...fields,
  secret: Schema.String.annotations({ description: "The signing secret. It is shown only in this response." })
}).annotations({ identifier: "EndpointWithSecret" })

const viewOf = ResponseFields.of(EndpointView)

/** An endpoint and what it is doing. */
export const described = (endpoint: Endpoint) => ({ ...endpoint, standing: standingOf(endpoint) })

export const of = (endpoint: Endpoint): EndpointView => viewOf(described(endpoint))

/** An endpoint for viewers: paths and queries of such URLs are often secrets. */
export const hidden = (view: EndpointView): EndpointView => ({ ...view, url: HttpUrl.shownOrigin(view.url) })

/** An endpoint as stored in the audit log. */
export const summaryOf = ({ customer, description, disabledAt, types, url }: Endpoint) => ({
  url,
  customer,
  description,
  types,
  enabled: disabledAt === undefined
})
