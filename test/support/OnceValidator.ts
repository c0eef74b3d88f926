/** An asynchronous validator that rejects every value but the first. */
export const onceValidator = () => {
  let calls = 0
  const schema = {
    "~standard": {
      version: 1,
      vendor: "test",
      validate: async (value: unknown) => {
        calls += 1
        if (calls > 1) throw new Error("only once")
        return { value: String(value) }
      }
    }
  } as const
  return { schema, calls: () => calls }
}
