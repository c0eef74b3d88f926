import * as JobActs from "./JobActs.js"

export const command = JobActs.command("cancel", {
  action: "cancel",
  about: "Cancel jobs. Waiting jobs are cancelled immediately; running jobs are asked to stop.",
  act: (jobAdmin, id) => jobAdmin.cancel(id),
  said: ({ id, status }) => (status === "running" ? `asked to stop ${id}` : `cancelled ${id}`)
})
