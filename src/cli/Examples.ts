import * as HelpDoc from "@effect/cli/HelpDoc"

type Example = readonly [line: string, what: string]

const first: ReadonlyArray<Example> = [
  ["nightshift demo", "a look at all of it, at work"],
  ["nightshift serve --embedded", "the whole service on a PostgreSQL of its own"],
  ["nightshift serve --port 9000", "on the database of DATABASE_URL"],
  [`nightshift enqueue greet --payload '{"name":"Ada"}'`, "a job, as soon as a slot is free"],
  ["nightshift jobs list --state dead", "what went wrong"],
  ["nightshift schedules list", "what comes again and again, and when next"],
  ["nightshift migrate --dry-run", "what a start would change in the database"],
  ["nightshift doctor", "what is wrong, and what to do about it"],
  ["nightshift config", "every setting and its value"],
  ["nightshift simulate", "a hundred clusters where everything goes wrong"]
]

const more: ReadonlyArray<Example> = [
  ["nightshift demo --port 0 --rate 3", "on a free port, with three times as much going on"],
  ["nightshift doctor --url http://127.0.0.1:8787", "whether a running process is alive and ready"],
  ["nightshift doctor --json", "for programs"],
  ["nightshift enqueue report --delay 5m --priority 10", "later, and after others"],
  ["nightshift enqueue report --dedupe daily", "once, while one with this key is not done"],
  ["cat order.json | nightshift enqueue import --payload -", "with a payload from another program"],
  ["nightshift uploads tokens create --workspace acme", "a token, shown this once"],
  ["nightshift uploads tokens list --workspace acme", "which there are"],
  ["nightshift uploads tokens revoke <id> --workspace acme", "lets nobody in any more"],
  ["UPLOADS_TOKEN=… nightshift uploads pull --workspace acme --into inbox", "fetches files as they come"],
  ["nightshift uploads pull --workspace acme --into inbox --once --json", "what waits now, for programs"],
  ["nightshift jobs list --queue mail --limit 1000 --json", "for programs"],
  ["nightshift jobs show <id>", "one job, whole"],
  ["nightshift jobs show <id> --json", "as the HTTP API shows it"],
  ["nightshift jobs why <id>", "what keeps a job from running"],
  ["nightshift jobs why <id> --json", "for programs"],
  ["nightshift jobs cancel <id> <id>", "what waits ends, what runs is asked to stop"],
  ["nightshift jobs cancel --queue mail --state scheduled --dry-run", "what would be cancelled"],
  ["nightshift jobs delete --state done --until 2026-01-01T00:00:00Z", "jobs that nobody needs any more"],
  ["nightshift queues list", "what waits where, and how queues are set"],
  ["nightshift queues pause mail", "nothing of it begins any more"],
  ["nightshift queues resume mail", "and on it goes"],
  ["nightshift queues scale mail 40", "forty at a time, over all pods"],
  ["nightshift jobs requeue <id> <id>", "finished jobs again, from the first attempt"],
  ["nightshift schedules list --json", "as the HTTP API shows them"],
  ["nightshift schedules next nightly_report", "its next ten runs, in its zone and in UTC"],
  ["nightshift schedules history nightly_report", "what came of its last ticks, and how its jobs stand"],
  ["nightshift schedules history nightly_report --json", "for programs"],
  ["nightshift schedules trigger nightly_report", "a job of it now"],
  ["nightshift schedules disable nightly_report", "no more of it, whatever code declares"],
  ["nightshift schedules enable nightly_report", "again, from its next time on"],
  ["nightshift bots set-webhook helper --url https://bots.example.org", "let Telegram deliver there"],
  ["nightshift bots info", "what Telegram knows of the bots"],
  ["nightshift simulate --runs 10000", "for as long as that takes"],
  ["nightshift simulate --seed 42 --trace", "one of them, step by step"],
  ["nightshift simulate --seed 42 --json", "for programs"],
  ["nightshift jobs requeue --kind receipt --text ECONNREFUSED", "all that died of one cause"]
]

const about = (words: ReadonlyArray<string>): ReadonlyArray<Example> => {
  const prefix = `${["nightshift", ...words].join(" ")} `
  return [...first, ...more].filter(([line]) => `${line} `.includes(prefix))
}

/** Returns the examples of the named command, or of its closest parent that has any. */
const choose = (words: ReadonlyArray<string>): ReadonlyArray<Example> => {
  if (words.length === 0) return first
  const found = about(words)
  return found.length > 0 ? found : choose(words.slice(0, -1))
}

/** Returns the words before the first option: the command path, possibly followed by arguments. */
export const wordsOf = (argv: ReadonlyArray<string>): ReadonlyArray<string> => {
  const given = argv.slice(2)
  const firstOption = given.findIndex((word) => word.startsWith("-"))
  return firstOption === -1 ? given : given.slice(0, firstOption)
}

/** The EXAMPLES section at the end of --help. */
export const footer = (argv: ReadonlyArray<string>): HelpDoc.HelpDoc => {
  const chosen = choose(wordsOf(argv))
  const width = Math.max(...chosen.map(([line]) => line.length))
  const lines = chosen.map(([line, what]) => HelpDoc.p(`${line.padEnd(width)}   ${what}`))
  return HelpDoc.blocks([HelpDoc.h1("EXAMPLES"), ...lines])
}
