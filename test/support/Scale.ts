/** How much of something a journey sends on its way: little in every run, and as much as a setting says in a long one. */
export const scale = (name: string, usual: number): number => {
  const set = Number(process.env[name] ?? usual)
  if (!Number.isSafeInteger(set) || set < 1) throw new Error(`${name} must be a whole number of at least 1`)
  return set
}
