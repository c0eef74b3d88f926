// Finds banned identifiers. `node scripts/check-banned.mjs [folder]` prints every use outside its allowed place and
// exits 1.
import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, resolve, sep } from "node:path"
import { fileURLToPath } from "node:url"

// Browser code has no Clock, Schedule or settings, and code of functions is built without Effect.
const browser = "dashboard/app/"
const functions = "serverless/"

const bans = [
  { word: /\bDate\.now\(/, why: "use Effect's Clock", except: [browser, functions] },
  { word: /\bnew Date\(\)/, why: "use Effect's Clock", except: [browser, functions] },
  { word: /\bset(Timeout|Interval)\(/, why: "use a Schedule or Effect.sleep", except: [browser, functions] },
  {
    word: /\bgather: setImmediate\b/,
    why: "turns of the event loop take no virtual time, so a simulation goes on without the flush",
    except: [
      "queue/enqueue/EnqueuePg.ts",
      "queue/events/EventsPg.ts",
      "queue/workflow/StreamsPg.ts",
      "queue/workflow/WorkflowsPg.ts"
    ]
  },
  { word: /\bprocess\.env\b/, why: "declare a Setting", except: ["cli/Environment.ts"] },
  { word: /\bEffect\.run(Promise|Sync|Fork)/, why: "only main.ts runs effects", except: ["main.ts"] },
  { word: /\bas any\b|: any\b|<any>/, why: "use a specific type", except: [] },
  { word: /@ts-(ignore|expect-error|nocheck)/, why: "fix the type", except: [] },
  // Old names of public words.
  { word: /\bmaxAttempts\b/, why: "say attempts, which counts the first", except: [] },
  { word: /\benqueueOrFind\b/, why: "enqueue returns id and outcome", except: [] },
  { word: /\b(TODO|FIXME|XXX)\b/, why: "do it or remove it", except: [] }
]

/** Returns every use of a banned identifier in a src folder, as messages. */
export const checkBanned = (src) => {
  const violations = []
  for (const entry of readdirSync(src, { recursive: true })) {
    const file = entry.split(sep).join("/")
    if (!/\.tsx?$/.test(file)) continue
    const lines = readFileSync(join(src, file), "utf8").split("\n")
    for (const { except, why, word } of bans) {
      if (except.some((place) => file === place || (place.endsWith("/") && file.startsWith(place)))) continue
      lines.forEach((line, index) => {
        if (word.test(line)) violations.push(`${file}:${index + 1}: ${line.match(word)[0]} is banned here: ${why}`)
      })
    }
  }
  return violations
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)))
  const violations = checkBanned(resolve(process.argv[2] ?? join(root, "src")))
  for (const violation of violations) console.error(violation)
  if (violations.length > 0) process.exit(1)
}
