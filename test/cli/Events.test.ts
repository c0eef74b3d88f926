import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import pg from "pg"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

describe("nightshift publish and events", () => {
  it.scopedLive("publishes, lists, shows and replays events, and removes subscribers", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const env = { DATABASE_URL: Redacted.value(yield* TestDatabase.migrated) }
      const run = (...args: ReadonlyArray<string>) => Nightshift.call(args, { cwd, env })
      expect((yield* run("events", "list")).stdout).toBe("No events.\n")
      expect((yield* run("publish", "unheard")).stdout).toMatch(/^published \S+: no subscriber matches it/)
      for (const command of ["publish", "endpoints send"]) {
        const refused = (data: string) => run(...command.split(" "), "unheard", "--data", data)
        const bad = expect.stringMatching(/^nightshift: --data is not valid JSON/)
        expect(yield* refused("{")).toMatchObject({ code: 2, stderr: bad })
        expect((yield* refused('{"n":9007199254740993}')).stderr).toContain(
          "--data has a number at n that is 9007199254740993"
        )
      }
      const client = new pg.Client({ connectionString: env.DATABASE_URL })
      yield* Effect.promise(() => client.connect())
      yield* Effect.promise(() =>
        client.query(`insert into nightshift.kind (name, queue, version, max_attempts, registered_at, updated_at)
            values ('mail', 'default', 1, 5, now(), now()), ('digest', 'default', 2, 5, now(), now());
          insert into nightshift.subscription (event, kind, created_at, updated_at) values ('paid', 'mail', now(), now());
          insert into nightshift.subscription (event, kind, created_at, updated_at, debounce, most, by_paths)
            values ('sold', 'digest', now(), now(), 10000, 50, '[["customer"]]')`)
      )
      // An event that was stored is never reported as a failure: the caller would publish it again.
      const stored = Effect.promise(() => client.query("select from nightshift.event where name = 'unseen'"))
      yield* Effect.promise(() => client.query("alter table nightshift.event rename column replays to gone"))
      expect((yield* run("publish", "unseen")).code).not.toBe(0)
      expect((yield* stored).rowCount).toBe(0)
      yield* Effect.promise(() => client.query("alter table nightshift.event rename column gone to replays"))
      expect((yield* run("publish", "unseen")).code).toBe(0)
      expect((yield* stored).rowCount).toBe(1)
      yield* Effect.promise(() => client.end())
      const paid = ["publish", "paid", "--data", '{"order":7}', "--id", "p1"]
      const [, id = ""] = /^published (\S+): 1 job\n$/.exec((yield* run(...paid)).stdout) ?? []
      expect((yield* run(...paid)).stdout).toBe(`repeated ${id}: an event with this --id exists, nothing was stored\n`)
      expect((yield* run("events", "list", "--name", "paid")).stdout).toMatch(new RegExp(`\\n${id} +paid +- +p1 `))
      expect((yield* run("events", "replay", id, "mail")).stdout).toMatch(/^enqueued \S+ for mail\n$/)
      expect((yield* run("events", "show", id)).stdout).toMatch(
        /\ndata +\{"order":7\}\nmail +pending \S+\nmail \(replay\) +pending \S+\n$/
      )
      const subscribers = (yield* run("events", "subscribers")).stdout
      expect(subscribers).toMatch(/\npaid +mail .* -\n/)
      expect(subscribers).toMatch(/\nsold +digest .* after 10s, at most 50 by data\.customer\n/)
      const sold = (yield* run("publish", "sold")).stdout
      const [, waiting = ""] = /^published (\S+): 0 jobs; 1 subscriber waits for further events\n$/.exec(sold) ?? []
      expect((yield* run("events", "show", waiting)).stdout).toMatch(/\ndigest +waits for further events\n$/)
      expect((yield* run("events", "unsubscribe", "paid", "mail")).stdout).toBe("mail no longer receives paid\n")
      const gone = yield* run("events", "unsubscribe", "paid", "mail")
      expect(gone).toMatchObject({ code: 1, stderr: expect.stringContaining('"mail" does not subscribe') })
      expect(yield* run("publish", "paid", "--data", "{")).toMatchObject({ code: 2 })
    })
  )
})
