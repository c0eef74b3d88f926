import { Clock, Console, type Duration, Effect, Schema } from "effect"
import * as EndpointsRoutes from "../../http/jobs/EndpointsRoutes.js"
import * as EndpointView from "../../http/jobs/EndpointView.js"
import { type Endpoint, InvalidEndpoint, Standing, standingOf } from "../../queue/endpoints/Endpoint.js"
import { Endpoints, maxEndpointPage } from "../../queue/endpoints/Endpoints.js"
import * as Send from "../../queue/endpoints/Send.js"
import { Transactions } from "../../queue/Transactions.js"
import { notBoth, UsageError } from "../Failure.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as Operator from "../Operator.js"
import * as QueueCommand from "../QueueCommand.js"
import { age, factList, print, printable, printJson, printText, table } from "../Terminal.js"
import * as EnqueueOptions from "./EnqueueOptions.js"
import { unlessEmpty } from "./JobFilterOptions.js"
import * as JobsBulk from "./JobsBulk.js"

const id = Input.required(Input.uuid(Schema.UUID, "An endpoint id"), "The endpoint's id.")
const { reason } = Operator
const url = Input.optional(Input.text, "Where webhooks are sent.")
const description = Input.optional(Input.text, "A note for operators.")
const type = Input.repeated(Input.text, "Send only webhooks of this type; all if omitted.")
const secret = Input.optional(Input.text, "Signing secret, whsec_ and 24 to 64 bytes in base64; generated if omitted.")

/** Names the option instead of the field. */
const asUsage = <A, E, R>(effect: Effect.Effect<A, E | InvalidEndpoint, R>) =>
  Effect.mapError(effect, (error) => {
    if (!(error instanceof InvalidEndpoint)) return error
    const what = error.field === "url" ? "The URL" : `--${error.field === "types" ? "type" : error.field}`
    return new UsageError({ message: `${what} ${error.reason}.` })
  })

const list = QueueCommand.make({
  about: "List endpoints of customers, newest first.",
  options: {
    customer: Input.optional(Input.text, "Only endpoints of this customer."),
    standing: Input.optional(Input.choice(Standing.literals), "Only endpoints that work, fail or are disabled."),
    ...QueueCommand.page("endpoints", { max: maxEndpointPage, default: 20 })
  },
  examples: { "nightshift endpoints list --standing disabled": "list endpoints to which nothing is sent" },
  run: ({ cursor, customer, json, limit, standing }) =>
    Effect.gen(function* () {
      const endpoints = yield* Endpoints
      const page = yield* endpoints.list({ cursor, customer, limit, standing })
      if (json) return yield* printJson({ endpoints: page.endpoints.map(EndpointView.of), next: page.next ?? null })
      if (page.endpoints.length === 0)
        return yield* Console.log(
          customer === undefined && standing === undefined
            ? "No endpoints. Create one: nightshift endpoints create."
            : "No endpoints match this filter."
        )
      const rows = page.endpoints.map((each) => [
        each.id,
        standingOf(each),
        printable(each.customer ?? "-"),
        printable(each.url),
        printable(each.types?.join(" ") ?? "all")
      ])
      yield* printText(table(["ENDPOINT", "STANDING", "CUSTOMER", "URL", "TYPES"], rows))
      if (page.next !== undefined) yield* Console.log(`\nMore: add --cursor ${page.next}`)
    })
})

const facts = (endpoint: Endpoint, now: number) => {
  const since = (at: number | undefined) => (at === undefined ? undefined : age(at, now))
  return factList([
    ["id", endpoint.id],
    ["standing", standingOf(endpoint)],
    ["url", endpoint.url],
    ["customer", endpoint.customer],
    ["description", endpoint.description === "" ? undefined : endpoint.description],
    ["types", endpoint.types?.join(" ") ?? "all"],
    ["created", age(endpoint.createdAt, now)],
    ["disabled", since(endpoint.disabledAt)],
    ["because", endpoint.disabledBecause],
    ["failing since", since(endpoint.firstFailedAt)],
    ["failures", endpoint.failures === 0 ? undefined : String(endpoint.failures)],
    ["last error", endpoint.lastError]
  ])
}

const shown = (json: boolean, endpoint: Endpoint) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => print(json, EndpointView.of(endpoint), facts(endpoint, now)))

/** Prints a secret once, for a script or for a person. */
const shownWithSecret = (json: boolean, made: Endpoint & { readonly secret: string }) =>
  json
    ? printJson({ ...EndpointView.of(made), secret: made.secret })
    : Console.log(
        `endpoint ${made.id}\nsecret   ${made.secret}\n\nThe secret is not shown again. Give it to the customer.`
      )

const show = QueueCommand.make({
  about: "Show an endpoint. `nightshift jobs list --key <id>` shows what was sent to it.",
  args: { id },
  examples: { "nightshift endpoints show <id>": "show whether an endpoint works, and its last error" },
  run: ({ id, json }) =>
    Effect.flatMap(Endpoints, (endpoints) => Effect.flatMap(endpoints.get(id), (found) => shown(json, found)))
})

const create = QueueCommand.make({
  about: "Create an endpoint and print its signing secret.",
  args: { url: Input.required(Input.text, "Where webhooks are sent.") },
  options: {
    customer: Input.optional(Input.text, "Whose endpoint it is: an id of your application."),
    description,
    type,
    secret,
    reason
  },
  examples: {
    "nightshift endpoints create https://customer.example.org/hooks --customer acme --type order.paid":
      "send the orders of a customer to it"
  },
  run: ({ customer, description, json, reason, secret, type, url }) =>
    Effect.gen(function* () {
      const acts = yield* EndpointsRoutes.audited
      const made = yield* acts
        .create({ url, customer, description, types: unlessEmpty(type), secret })
        .pipe(Operator.acting(reason))
      yield* shownWithSecret(json, made)
    }).pipe(asUsage)
})

const change = QueueCommand.make({
  about: "Change the URL, the description or the types of an endpoint.",
  args: { id },
  options: { url, description, type, allTypes: Input.flag("Send webhooks of all types."), reason },
  examples: { "nightshift endpoints change <id> --url https://customer.example.org/v2": "send to another URL" },
  run: ({ allTypes, description, id, json, reason, type, url }) =>
    Effect.gen(function* () {
      yield* notBoth("--type", "--all-types", type.length > 0 && allTypes)
      const acts = yield* EndpointsRoutes.audited
      const patch = { url, description, types: allTypes ? null : unlessEmpty(type) }
      const { after } = yield* acts.change(id, patch).pipe(Operator.acting(reason))
      yield* shown(json, after)
    }).pipe(asUsage)
})

const rotate = QueueCommand.make({
  about: "Replace the signing secret of an endpoint and print the new one.",
  args: { id },
  options: {
    keep: Input.withDefault<Duration.Duration, Duration.Duration>(
      Input.duration,
      EndpointsRoutes.usualKeep,
      "How long the previous secrets also sign (default 1d)."
    ),
    secret,
    reason
  },
  examples: { "nightshift endpoints rotate <id> --keep 7d": "give the customer a week to change the secret" },
  run: ({ id, json, keep, reason, secret }) =>
    Effect.gen(function* () {
      const acts = yield* EndpointsRoutes.audited
      yield* shownWithSecret(json, yield* acts.rotate(id, keep, secret).pipe(Operator.acting(reason)))
    }).pipe(asUsage)
})

const disable = QueueCommand.make({
  about: "Stop sending to an endpoint. Its webhooks fail until it is enabled, and can be resent.",
  args: { id },
  options: { reason },
  examples: { "nightshift endpoints disable <id> --reason 'customer asked'": "stop sending" },
  run: ({ id, json, reason }) =>
    Effect.gen(function* () {
      const acts = yield* EndpointsRoutes.audited
      yield* shown(json, (yield* acts.enable(id, false).pipe(Operator.acting(reason))).after)
    })
})

const since = Input.optional(Input.instant, "Only webhooks stored at or after this time: 2026-01-31T09:00:00Z.")

/** Requeues the dead jobs of an endpoint, each with the same webhook id. */
const resendFailed = (id: string, since: number | undefined, json: boolean, dryRun: boolean) =>
  Effect.flatMap(JobsBulk.scopeOf("requeue", { kind: Send.kind.name, key: id, state: "dead", since }), (filter) =>
    JobsBulk.perform({ action: "requeue", filter, dryRun, rehearse: undefined, json })
  )

const enable = QueueCommand.make({
  about: "Send to an endpoint again.",
  args: { id },
  options: { resend: Input.flag("Also resend all webhooks that failed."), since, reason },
  examples: {
    "nightshift endpoints enable <id> --resend": "send again, and resend everything that failed"
  },
  run: ({ id, json, reason, resend, since }) =>
    Effect.gen(function* () {
      if (since !== undefined && !resend) return yield* new UsageError({ message: "Use --since with --resend." })
      const acts = yield* EndpointsRoutes.audited
      const { after } = yield* acts.enable(id, true)
      if (resend) return yield* resendFailed(id, since, json, false)
      yield* shown(json, after)
      if (!json) yield* Console.log(`\nTo resend what failed: nightshift endpoints resend ${id}`)
    }).pipe(Operator.acting(reason))
})

const resend = QueueCommand.make({
  about: "Resend the failed webhooks of an endpoint.",
  args: { id },
  options: { since, dryRun: Input.flag("Only show how many webhooks match."), reason },
  examples: { "nightshift endpoints resend <id> --since 2026-01-31T09:00:00Z": "resend what failed since a time" },
  run: ({ dryRun, id, json, reason, since }) =>
    Effect.gen(function* () {
      const endpoints = yield* Endpoints
      yield* endpoints.get(id)
      yield* resendFailed(id, since, json, dryRun)
    }).pipe(Operator.acting(reason))
})

const remove = QueueCommand.make({
  about: "Delete an endpoint and its secrets. Webhooks that wait for it fail.",
  args: { id },
  options: { reason },
  examples: { "nightshift endpoints delete <id>": "delete an endpoint" },
  run: ({ id, json, reason }) =>
    Effect.gen(function* () {
      const acts = yield* EndpointsRoutes.audited
      const removed = yield* acts.remove(id).pipe(Operator.acting(reason))
      yield* Console.log(json ? JSON.stringify(EndpointView.of(removed)) : `deleted endpoint ${removed.id}`)
    })
})

const send = QueueCommand.make({
  about: "Send a webhook to one endpoint, or to those of a customer that want its type.",
  args: { type: Input.required(Input.text, "Type of the webhook, such as order.paid.") },
  options: {
    data: Input.optional(Input.text, "The data as JSON (default {}); - reads it from standard input."),
    endpoint: Input.optional(Input.text, "Send only to this endpoint."),
    customer: Input.optional(Input.text, "Send to the endpoints of this customer; those without one if omitted."),
    subject: EnqueueOptions.subject,
    id: Input.optional(Input.text, "The webhook's id. Set it to make retries of this command safe.")
  },
  examples: { "nightshift endpoints send ping --endpoint <id>": "test an endpoint" },
  run: ({ customer, data, endpoint, id, json, subject, type }) =>
    Effect.gen(function* () {
      const transactions = yield* Transactions
      const read = yield* EnqueueOptions.readData(data)
      // In a transaction, NOTIFY is sent with the commit. Otherwise this process could exit before sending it.
      const sent = yield* transactions.run(Send.send({ type, endpoint, customer }, read, { id, subject }))
      if (json) return yield* printJson({ sent })
      if (sent.length === 0)
        return yield* Console.log(
          `No endpoint ${customer === undefined ? "without a customer" : `of the customer ${printable(customer)}`} wants this type. List them: nightshift endpoints list.`
        )
      yield* printText(
        table(
          ["JOB", "ENDPOINT", "OUTCOME"],
          sent.map((each) => [each.id, each.endpoint, each.outcome])
        )
      )
    }).pipe(asUsage)
})

export const command = Command.group("Create endpoints of customers, send webhooks to them and resend what failed.", {
  list,
  show,
  create,
  change,
  rotate,
  disable,
  enable,
  resend,
  delete: remove,
  send
})
