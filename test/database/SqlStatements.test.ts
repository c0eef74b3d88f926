import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as MigrationFile from "../../src/database/MigrationFile.js"
import * as Package from "../../src/database/Package.js"
import { split } from "../../src/database/SqlStatements.js"

describe("SqlStatements", () => {
  it("splits at semicolons and drops comment-only statements", () => {
    expect(split("-- first; not a statement\nselect 1; ;\n/* a; /* nested; */ */ select 2\n;-- end;")).toEqual([
      "select 1",
      "select 2\n"
    ])
    expect(split("")).toEqual([])
    expect(split("select 1")).toEqual(["select 1"])
  })

  it("keeps semicolons in strings, quoted names, comments and dollar quotes", () => {
    for (const statement of [
      "select 'a;''b;'",
      "select E'a\\';b'",
      'select 1 as "a;""b"',
      "select 1 -- why; because\n + 1",
      "select /* ; */ 1",
      "do $$ begin perform 1; end $$",
      "do $body$ begin perform $$;$$; end $body$",
      "select $1, a$b$c from t",
      "begin",
      "create function f(a int) returns int language sql\nbegin atomic select case a when 1 then 2 end; /* end */ select 'end' -- end\n; end",
      "CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; END"
    ]) {
      expect(split(`${statement};select 2`)).toEqual([statement, "select 2"])
    }
  })

  it.effect("finds one command in each statement of the migrations", () =>
    Effect.gen(function* () {
      for (const { sql } of yield* MigrationFile.readAll(Package.migrationsDirectory)) {
        for (const statement of split(sql)) {
          expect(statement).toMatch(
            /^((create( or replace)?|drop|alter) (table|unique index|index|function|trigger)|insert into|do) /
          )
        }
      }
    })
  )
})
