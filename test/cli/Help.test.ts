import { spawnSync } from "node:child_process"
import { closeSync, openSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Nightshift from "../support/Nightshift.js"

describe("nightshift --completions", () => {
  it.scopedLive("prints a whole script for each shell; the bash script completes subcommands", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const [bash, zsh, fish] = yield* Effect.forEach(["bash", "zsh", "fish"], (shell) =>
        Nightshift.call(["--completions", shell], { cwd })
      )
      expect(fish?.stdout.split("\n").at(-2)).toMatch(/^complete -c nightshift -n "\S+ chaos" -l \S+ -d '[^']+'$/)
      expect(zsh?.stdout).toMatch(/^#compdef nightshift\n/)
      const complete = (...words: ReadonlyArray<string>) => {
        const script = `${bash?.stdout}
          COMP_WORDS=(nightshift "$@"); COMP_CWORD=$#; _nightshift_bash_completions nightshift; echo "\${COMPREPLY[@]}"`
        return spawnSync("bash", ["-c", script, "bash", ...words], { encoding: "utf8" })
          .stdout.trim()
          .split(" ")
      }
      expect(complete("jobs", "w")).toEqual(["why"])
      expect(complete("uploads", "tokens", "revoke", "--work")).toEqual(["--workspace"])
      expect(complete("bots", "set-webhook", "--ur")).toEqual(["--url"])
      expect(complete("jobs", "why", "--dry")).toEqual([""])
      expect(complete("jobs", "list", "--state", "de")).toEqual(["dead"])
      // These shells are not installed everywhere, so check that the constructs that broke their scripts are gone.
      expect(zsh?.stdout).toMatch(/^ +'\*--queue\[[^\]]+\]:value: ' \\\n/m)
      expect(zsh?.stdout).toMatch(/^ +'--app\[[^\]]+\]:file:_files' \\\n +'\*:value: ' \\\n +&& ret=0$/m)
      expect(zsh?.stdout).toMatch(/^ +'--dry-run\[[^\]]+\]' \\$/m)
      expect(fish?.stdout).toMatch(/^complete -c nightshift -f\n/)
      expect(fish?.stdout).toMatch(/ -l directory -r -F -d /)
    })
  )
})

describe("the help of a command", () => {
  it.scopedLive("fails if it cannot be written", () =>
    Effect.gen(function* () {
      const command = join(Nightshift.root, "dist", "nightshift.js")
      const readOnly = yield* Effect.acquireRelease(
        Effect.sync(() => openSync(command, "r")),
        (file) => Effect.sync(() => closeSync(file))
      )
      const stdio = ["ignore", readOnly, "pipe"] as const
      expect(spawnSync(process.execPath, [command, "--help"], { stdio: [...stdio], encoding: "utf8" })).toMatchObject({
        status: 1,
        stderr: expect.stringMatching(/^nightshift: Cannot write the output: [^\n]+\n$/)
      })
    })
  )

  it.scopedLive("ends with examples of that command", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const helpOf = (...words: ReadonlyArray<string>) =>
        Effect.map(Nightshift.call([...words, "--help"], { cwd }), ({ code, stdout }) => {
          expect(code).toBe(0)
          return stdout.slice(stdout.indexOf("EXAMPLES"))
        })
      expect(yield* helpOf()).toContain("nightshift serve --embedded")
      const enqueue = yield* helpOf("enqueue")
      expect(enqueue).toContain("nightshift enqueue import --payload -")
      expect(enqueue).not.toContain("nightshift serve")
      expect(yield* helpOf("jobs", "show")).toMatch(
        /^EXAMPLES\n\n {2}nightshift jobs show <id> [^\n]+\n[^\n]+--logs[^\n]+\n[^\n]+--json[^\n]+\n+$/
      )
    })
  )
})
