import { randomBytes } from "node:crypto"
import { mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect } from "effect"
import { list, metrics, type Service, serve, until, upload } from "../journeys/fixtures/UploadService.js"
import * as Meddler from "../support/Meddler.js"
import * as Nightshift from "../support/Nightshift.js"
import { isLong } from "../support/Scale.js"

const pulling = (service: Service, url: string, ...more: ReadonlyArray<string>) =>
  Nightshift.start(["uploads", "pull", "--workspace", "acme", "--into", "inbox", "--url", url, ...more], {
    cwd: service.cwd,
    env: { UPLOADS_TOKEN: service.token }
  })

const pullOnce = (service: Service, ...more: ReadonlyArray<string>) =>
  Effect.scoped(Effect.flatMap(pulling(service, service.url, "--once", ...more), ({ finished }) => finished))

/** Files in the folder, and the puller's state beside it. */
const inbox = ({ cwd }: Service) => {
  const folder = join(cwd, "inbox")
  const files = readdirSync(folder).filter((name) => name !== ".nightshift-pull")
  const remembered = readdirSync(join(folder, ".nightshift-pull")).filter((name) => name !== "lock")
  return { folder, files, remembered, read: (name: string) => readFileSync(join(folder, name)) }
}

/** Bytes on disk of files that the puller has not finished. */
const stored = (service: Service) => {
  const state = join(service.cwd, "inbox", ".nightshift-pull")
  const parts = readdirSync(state).filter((name) => name.endsWith(".part"))
  return parts.reduce((bytes, name) => bytes + statSync(join(state, name)).size, 0)
}

if (isLong) {
  describe("a puller that is killed with -9", () => {
    it.scopedLive(
      "between fetch and acknowledgement keeps the file once, intact, and the service sweeps it in time",
      () =>
        Effect.gen(function* () {
          const service = yield* serve({ UPLOADS_SWEEP_INTERVAL: "200ms", UPLOADS_ACK_RETENTION: "1s" })
          const content = randomBytes(1_000_000)
          const { files } = yield* upload(service, [["../report.pdf", content]])
          const name = `${files[0]?.id}-report.pdf`
          const between = yield* Meddler.make(service.url)
          const doomed = yield* pulling(service, between.url)
          between.meddle(({ path }) =>
            path.endsWith("/ack") ? { before: () => process.kill(doomed.pid, "SIGKILL") } : undefined
          )
          expect(yield* doomed.finished).toMatchObject({ signal: "SIGKILL" })
          expect(inbox(service)).toMatchObject({ files: [name], remembered: [`${files[0]?.id}.done`] })
          expect(yield* list(service)).toHaveLength(1)

          const again = yield* pullOnce(service)
          expect(again).toMatchObject({ code: 0, stderr: "" })
          const after = inbox(service)
          expect(after).toMatchObject({ files: [name], remembered: [] })
          expect(after.read(name).equals(content)).toBe(true)
          expect(yield* list(service)).toEqual([])
          yield* until(metrics(service), (text) =>
            text.includes('nightshift_pending_uploads_swept_total{outcome="acked"} 1')
          )
          expect(yield* metrics(service)).toContain('nightshift_pending_uploads_swept_total{outcome="expired"} 0')
          yield* service.said(/sweeper deleted acked=1 expired=0 total=1/)
        })
    )

    it.scopedLive("during a download resumes where it was", () =>
      Effect.gen(function* () {
        const service = yield* serve()
        const content = randomBytes(3_000_000)
        yield* upload(service, [["large.bin", content]])
        const between = yield* Meddler.make(service.url)
        const doomed = yield* pulling(service, between.url)
        const half = yield* Deferred.make<void>()
        between.meddle(({ path }) =>
          path.endsWith("/content")
            ? { afterBytes: [1_500_000, () => Deferred.unsafeDone(half, Effect.void)] }
            : undefined
        )
        yield* Deferred.await(half)
        yield* until(
          Effect.sync(() => stored(service)),
          (bytes) => bytes > 0
        )
        process.kill(doomed.pid, "SIGKILL")
        yield* doomed.finished
        expect(inbox(service)).toMatchObject({ files: [], remembered: [expect.stringMatching(/\.part$/)] })

        between.meddle(() => undefined)
        const next = yield* pulling(service, between.url, "--once", "--json")
        expect(yield* next.finished).toMatchObject({ code: 0 })
        const { files, read, remembered } = inbox(service)
        expect([files.length, remembered]).toEqual([1, []])
        expect(read(files[0] ?? "").equals(content)).toBe(true)
        const ranges = between.seen.filter(({ path }) => path.endsWith("/content")).map(({ headers }) => headers.range)
        expect(ranges).toEqual([undefined, expect.stringMatching(/^bytes=\d+-$/)])
      })
    )

    it.scopedLive("does not fetch again a file taken from the folder, nor one that the service has acknowledged", () =>
      Effect.gen(function* () {
        const service = yield* serve()
        yield* upload(service, [["a.txt", "one"]])
        const between = yield* Meddler.make(service.url)
        const first = yield* pulling(service, between.url)
        between.meddle(({ path }) =>
          path.endsWith("/ack") ? { before: () => process.kill(first.pid, "SIGKILL") } : undefined
        )
        yield* first.finished
        const { files, folder } = inbox(service)
        mkdirSync(join(service.cwd, "processed"))
        renameSync(join(folder, files[0] ?? ""), join(service.cwd, "processed", files[0] ?? ""))

        // The second is killed after the service has stored the acknowledgement and before its answer arrives.
        const second = yield* pulling(service, between.url)
        between.meddle(({ path }) =>
          path.endsWith("/ack") ? { afterwards: () => process.kill(second.pid, "SIGKILL") } : undefined
        )
        yield* second.finished
        expect(inbox(service)).toMatchObject({ files: [], remembered: [expect.stringMatching(/\.done$/)] })
        expect(yield* list(service)).toEqual([])

        expect(yield* pullOnce(service)).toMatchObject({ code: 0, stdout: "", stderr: "" })
        expect(inbox(service)).toMatchObject({ files: [], remembered: [] })
        expect(between.seen.filter(({ path }) => path.endsWith("/content"))).toHaveLength(1)
      })
    )
  })
}

describe("nightshift uploads pull", () => {
  it.scopedLive("keeps files of the same name apart, reports its actions, and refuses invalid options", () =>
    Effect.gen(function* () {
      const service = yield* serve()
      const { files } = yield* upload(service, [
        ["same.txt", "first"],
        ["same.txt", "second"],
        ["/etc/\u202epasswd", "third"]
      ])
      const pulled = yield* pullOnce(service, "--json")
      expect(pulled.code).toBe(0)
      const lines = pulled.stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
      expect(lines.map(({ id, name, outcome }) => ({ id, name, outcome }))).toEqual(
        ["same.txt", "same.txt", "_passwd"].map((name, n) => ({ id: files[n]?.id, name, outcome: "pulled" }))
      )
      const contents = lines.map(({ path }) => readFileSync(path, "utf8"))
      expect(contents).toEqual(["first", "second", "third"])
      expect(inbox(service).files).toHaveLength(3)

      yield* upload(service, [["late.txt", "12345"]])
      const forPeople = yield* pullOnce(service)
      expect(forPeople.stdout).toMatch(/^pulled late\.txt \(5 B\) -> \S+\/inbox\/\S+-late\.txt\n$/)
      expect(pulled.stdout + forPeople.stdout).not.toContain(service.token)

      const wrong = (args: ReadonlyArray<string>, env: Record<string, string> = {}) =>
        Nightshift.call(["uploads", "pull", "--into", "x", "--workspace", "acme", "--url", service.url, ...args], {
          cwd: service.cwd,
          env
        })
      expect(yield* wrong([])).toMatchObject({ code: 2, stderr: expect.stringContaining("UPLOADS_TOKEN") })
      expect(yield* wrong(["--once", "--every", "1s"], { UPLOADS_TOKEN: "x" })).toMatchObject({ code: 2 })
      expect(yield* wrong(["--every", "soon"], { UPLOADS_TOKEN: "x" })).toMatchObject({ code: 2 })
      const refused = yield* wrong([], { UPLOADS_TOKEN: "nst_wrong-token" })
      expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("rejected the token") })
      expect(refused.stderr).not.toContain("nst_wrong")
      const twoLines = yield* wrong(["--once"], { UPLOADS_TOKEN: "nst_first\nnst_second" })
      expect(twoLines).toMatchObject({ code: 2, stderr: expect.stringContaining("UPLOADS_TOKEN: expected a token") })
      expect(twoLines.stderr).not.toContain("nst_")
      for (const url of ["http://me:secret@127.0.0.1:1", "http://127.0.0.1:1/?to=x"]) {
        const args = ["uploads", "pull", "--into", "x", "--workspace", "acme", "--once", "--url", url]
        const { code, stderr } = yield* Nightshift.call(args, {
          cwd: service.cwd,
          env: { UPLOADS_TOKEN: service.token }
        })
        expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining("UPLOADS_URL: expected") })
        expect(stderr).not.toContain("secret")
      }
      writeFileSync(join(service.cwd, "taken"), "a file")
      const unusable = yield* wrong(["--into", "taken/inside", "--once"], { UPLOADS_TOKEN: service.token })
      expect(unusable.code).not.toBe(0)
    })
  )

  it.scopedLive("waits for an unavailable service, exits when its token is revoked, and locks its folder", () =>
    Effect.gen(function* () {
      const service = yield* serve()
      const between = yield* Meddler.make(service.url)
      const running = yield* pulling(service, between.url, "--every", "100ms")
      yield* upload(service, [["a.txt", "one"]])
      yield* running.said(/pulled a\.txt/)
      expect(yield* pullOnce(service)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("is in use by process")
      })
      between.meddle(() => ({ before: () => {} }))
      yield* running.said(/is not reachable.*Retrying every 100ms/)
      between.meddle(() => undefined)
      yield* running.said(/the service is reachable again/)
      yield* upload(service, [["b.txt", "two"]])
      yield* running.said(/pulled b\.txt/)
      const listed = yield* Nightshift.call(["uploads", "tokens", "list", "--workspace", "acme", "--json"], {
        cwd: service.cwd,
        env: { DATABASE_URL: service.database }
      })
      const [{ id }] = JSON.parse(listed.stdout).tokens
      const revoked = yield* Nightshift.call(["uploads", "tokens", "revoke", id, "--workspace", "acme"], {
        cwd: service.cwd,
        env: { DATABASE_URL: service.database }
      })
      expect(revoked).toMatchObject({ code: 0, stdout: expect.stringMatching(/^revoked nst_[0-9a-f]{8}…/) })
      expect(yield* running.finished).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("rejected the token")
      })
      const made = yield* Nightshift.call(["uploads", "tokens", "create", "--workspace", "acme", "--label", "next"], {
        cwd: service.cwd,
        env: { DATABASE_URL: service.database }
      })
      expect(made.stdout).toMatch(/^nst_\S{51}\n$/)
      expect(yield* list({ url: service.url, token: made.stdout.trim() })).toEqual([])
    })
  )
})
