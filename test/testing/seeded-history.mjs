// The history of a shift with retries, jitter, schedules, workflows and batches as text. Also a program: it prints the history
// of the built package for a seed, while something else keeps the event loop busy.

export const history = async ({ client, testing, z }, seed) => {
  const lines = []
  const note = (...parts) => void lines.push(parts.join(" "))
  const payload = z.object({ number: z.number() })
  const flaky = client.job("flaky", { payload, attempts: 2, backoff: "10m", jitter: 0.5 })
  const tick = client.job("tick", { payload })
  const packed = client.workflow("pack", { payload }, async ({ number }, step) =>
    step.run("box", () => `box ${number}`)
  )
  const order = client.workflow("order", { payload }, async ({ number }, step) => {
    await step.sleep("cool off", "2h")
    const signal = await step.waitFor("approval", { timeout: "1d" })
    return [signal, await step.all("pack", [number, number + 1], (each) => packed({ number: each }))]
  })
  const shift = await testing.testShift({
    seed,
    log: false,
    slots: 3,
    startAt: "2030-01-01T00:00:00Z",
    schedules: [tick.schedule("often", { payload: { number: 0 }, cron: "15 * * * *", timezone: "Europe/Berlin" })],
    handlers: [
      flaky.handle(async ({ number }, { attempt, now }) => {
        note("flaky", number, attempt, now().toISOString())
        for (let hops = number % 4; hops > 0; hops -= 1) await new Promise((resolve) => setImmediate(resolve))
        if ((number + attempt) % 3 !== 0) throw new Error(`no luck ${number}`)
        return number
      }),
      tick.handle(async (_, { enqueue, now }) => {
        note("tick", now().toISOString())
        await enqueue(flaky, { number: now().getUTCHours() })
      }),
      order,
      packed
    ]
  })
  const numbers = Array.from({ length: 12 }, (_, number) => ({ number }))
  await shift.enqueueMany(flaky, numbers)
  const batch = await shift.batches.create((add) => {
    for (const each of numbers.slice(0, 3)) add(flaky, each)
  })
  const run = await shift.start(order, { number: 1 })
  await shift.advance("3h")
  await run.signal("approval", "yes")
  await shift.advance("1h")
  await shift.crash()
  await shift.advance("1h")
  note(JSON.stringify(await shift.batches.get(batch.id)))
  note(JSON.stringify(await run.status()))
  // Stacks contain the paths of the code that runs.
  const withoutStacks = (name, value) => (name === "stack" || name === "lastErrorStack" ? undefined : value)
  for await (const job of shift.jobs.list({}, { order: "asc" })) note(JSON.stringify(job, withoutStacks))
  await shift.close()
  return lines.join("\n")
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const spin = () => {
    const until = performance.now() + 2
    while (performance.now() < until);
  }
  setInterval(spin, 4).unref()
  const [client, testing, { z }] = await Promise.all([
    import("../../dist/client.js"),
    import("../../dist/testing.js"),
    import("zod")
  ])
  process.stdout.write(await history({ client, testing, z }, undefined))
}
