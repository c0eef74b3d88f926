import * as JobActs from "./JobActs.js"

export const command = JobActs.command("requeue", {
  action: "requeue",
  about: "Run finished jobs again from the first attempt. A filter without --state selects dead jobs only.",
  act: (jobAdmin, id) => jobAdmin.requeue(id),
  said: ({ id }) => `requeued ${id}`
})
