// Compares several runs of the same tests.

/** The tests that did not pass in every run that had them, each with how often it failed and the first reason. */
export const unstable = (reports) => {
  const found = new Map()
  const add = (name, message) => {
    const known = found.get(name) ?? { name, failures: 0, message }
    found.set(name, { ...known, failures: known.failures + 1 })
  }
  for (const { broken, code, output, tests } of reports) {
    const failed = tests.filter(({ status }) => status === "failed")
    for (const { file, message, name } of failed) add(`${file} > ${name}`, message)
    for (const { file, message } of broken) add(file, message)
    // An error outside every test, or a process that died.
    if (code !== 0 && failed.length === 0 && broken.length === 0)
      add("the run itself", output.trim().split("\n").at(-1))
  }
  return [...found.values()].sort((one, other) => other.failures - one.failures)
}
