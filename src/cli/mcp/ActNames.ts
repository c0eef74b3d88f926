/** The tools that change something, which `--allow` names. */
export const actNames = ["requeue", "cancel", "pause", "resume", "signal"] as const
export type ActName = (typeof actNames)[number]
