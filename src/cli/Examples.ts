import * as HelpDoc from "@effect/cli/HelpDoc"

type Example = readonly [line: string, what: string]

const first: ReadonlyArray<Example> = [
  ["nightshift demo", "start a demo with sample traffic"],
  ["nightshift init my-jobs", "write a TypeScript project with a job and a test"],
  ["nightshift serve --embedded", "start the service with an embedded PostgreSQL"],
  ["nightshift serve --port 9000", "start it on the database in DATABASE_URL"],
  [`nightshift enqueue greet --payload '{"name":"Ada"}'`, "enqueue a job that is due now"],
  ["nightshift jobs list --state dead", "list dead jobs"],
  ["nightshift schedules list", "list schedules and their next runs"],
  ["nightshift migrate --dry-run", "show pending migrations"],
  ["nightshift doctor", "find problems and their fixes"],
  ["nightshift config", "show all settings"],
  ["nightshift simulate", "run 100 simulations with random faults"]
]

const more: ReadonlyArray<Example> = [
  ["nightshift demo --port 0 --rate 3", "use a free port and three times the traffic"],
  ["nightshift doctor --url http://127.0.0.1:8787", "check that a running process is alive and ready"],
  ["nightshift doctor --json", "print JSON"],
  ["nightshift init --json", "write it to this folder, print JSON"],
  ["nightshift enqueue report --delay 5m --priority 10", "due in 5 minutes, at a lower priority"],
  ["nightshift enqueue report --dedupe daily", "skip if an unfinished job has this key"],
  ["cat order.json | nightshift enqueue import --payload -", "read the payload from stdin"],
  ["nightshift batches list", "list batches and their progress"],
  ["nightshift batches show <id>", "show a batch and its progress"],
  ["nightshift jobs cancel --batch <id>", "cancel the jobs of a batch"],
  ["nightshift workflows list --status waiting", "list executions that wait for a signal or children"],
  ["nightshift workflows show order/A-17", "show its steps, waits and children"],
  [`nightshift workflows start order A-17 --payload '{"id":"A-17"}'`, "start an execution, once per key"],
  [`nightshift workflows signal order/A-17 approval --value '{"by":"ada"}'`, "send a signal"],
  ["nightshift workflows cancel order/A-17", "undo its steps and end it"],
  ["nightshift workflows retry order/A-17", "continue from the failed step"],
  ["nightshift workflows fork order/A-17 charge", "start a new execution from this step"],
  ["nightshift uploads tokens create --workspace acme", "create a token and print it once"],
  ["nightshift uploads tokens list --workspace acme", "list tokens"],
  ["nightshift uploads tokens revoke <id> --workspace acme", "revoke a token"],
  ["UPLOADS_TOKEN=… nightshift uploads pull --workspace acme --into inbox", "fetch files as they arrive"],
  ["nightshift uploads pull --workspace acme --into inbox --once --json", "fetch waiting files, print JSON and exit"],
  ["nightshift jobs list --queue mail --limit 1000 --json", "print JSON"],
  ["nightshift jobs show <id>", "show all details of a job"],
  ["nightshift jobs show <id> --json", "print JSON as in the HTTP API"],
  ["nightshift jobs why <id>", "explain why a job is not running"],
  ["nightshift jobs why <id> --json", "print JSON"],
  ["nightshift jobs run <id>", "run a scheduled or retrying job now"],
  ["nightshift jobs run --kind receipt --state retrying", "do not wait for the retries of these jobs"],
  ["nightshift jobs cancel <id> <id>", "cancel two jobs"],
  ["nightshift jobs cancel --queue mail --state scheduled --dry-run", "show what would be cancelled"],
  ["nightshift jobs delete --state done --until 2026-01-01T00:00:00Z", "delete old done jobs"],
  ["nightshift queues list", "list queues with counts and settings"],
  ["nightshift queues pause mail", "start no more jobs of this queue"],
  ["nightshift queues resume mail", "start jobs again"],
  ["nightshift queues scale mail 40", "run up to 40 jobs at a time in the cluster"],
  ["nightshift jobs requeue <id> <id>", "run finished jobs again from attempt 1"],
  ["nightshift schedules list --json", "print JSON as in the HTTP API"],
  ["nightshift schedules next nightly_report", "show its next ten runs, in its time zone and in UTC"],
  ["nightshift schedules history nightly_report", "show its last runs and their jobs"],
  ["nightshift schedules history nightly_report --json", "print JSON"],
  ["nightshift schedules trigger nightly_report", "enqueue its job now"],
  ["nightshift schedules pause nightly_report", "stop it, even if code declares it"],
  ["nightshift schedules resume nightly_report", "resume it from its next run on"],
  ["nightshift bots set-webhook helper --url https://bots.example.org", "register the webhook with Telegram"],
  ["nightshift bots info", "show the bots and their webhooks"],
  ["nightshift simulate --runs 10000", "run 10,000 simulations"],
  ["nightshift simulate --seed 42 --trace", "print every step of one simulation"],
  ["nightshift simulate --seed 42 --json", "print JSON"],
  ["nightshift chaos --url http://127.0.0.1:8787 --allow pause,cancel", "inject faults through the HTTP API"],
  [
    "nightshift chaos --url http://127.0.0.1:8787 --allow connections,locks --json",
    "inject faults through the database"
  ],
  ["nightshift chaos --url http://127.0.0.1:8787 --allow sigkill --pid <pid>", "kill a pod on this machine"],
  ["nightshift jobs requeue --kind receipt --text ECONNREFUSED", "requeue all jobs with the same error"]
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
