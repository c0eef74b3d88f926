import { inspect } from "node:util"
import { expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Database } from "../../src/database/Database.js"
import * as TestDatabase from "../support/TestDatabase.js"

layer(TestDatabase.layer, { excludeTestServices: true })("a role that may only publish", (it) => {
  it.scoped("needs a right for windows only if a subscriber has them", () =>
    Effect.gen(function* () {
      const { sql, transaction } = yield* Database
      const role = `publisher_${process.pid}`
      const publish = sql`select nightshift.publish('paid', '{}')`
      // The role is rolled back with the rest.
      const story = Effect.gen(function* () {
        yield* sql.unsafe(`create role ${role}`)
        yield* sql.unsafe(`grant usage on schema nightshift to ${role}`)
        yield* sql.unsafe(`grant select, insert, update on nightshift.job, nightshift.event to ${role}`)
        yield* sql.unsafe(`grant select on nightshift.kind, nightshift.queue, nightshift.route,
          nightshift.subscription to ${role}`)
        yield* sql.unsafe(`grant select, update on nightshift.event_wait to ${role}`)
        yield* sql`insert into nightshift.kind (name, queue, version, max_attempts, registered_at, updated_at)
          values ('mail', 'q', 1, 5, now(), now())`
        yield* sql`insert into nightshift.subscription (event, kind, created_at, updated_at)
          values ('paid', 'mail', now(), now())`
        yield* sql.unsafe(`set local role ${role}`)
        yield* publish
        yield* sql`reset role`
        yield* sql`update nightshift.subscription set debounce = 1000, most = 10`
        yield* sql.unsafe(`set local role ${role}`)
        const refused = yield* Effect.flip(transaction(publish))
        expect(inspect(refused)).toContain("permission denied for table windowed_event")
        yield* sql`reset role`
        yield* sql.unsafe(`grant insert on nightshift.windowed_event to ${role}`)
        yield* sql.unsafe(`set local role ${role}`)
        yield* publish
        yield* sql`reset role`
        const [counts] = yield* sql`select (select count(*)::int from nightshift.job) as jobs,
          (select count(*)::int from nightshift.windowed_event) as waiting`
        expect(counts).toEqual({ jobs: 1, waiting: 1 })
        return yield* Effect.fail("done")
      })
      expect(yield* Effect.flip(transaction(story))).toBe("done")
    })
  )
})
