import * as JobActs from "./JobActs.js"

export const command = JobActs.command("requeue", {
  action: "requeue",
  about: "Run finished jobs again from attempt 1. A filter without --state selects dead jobs.",
  act: (jobAdmin, id) => jobAdmin.requeue(id),
  said: ({ id }) => `requeued ${id}`
})
