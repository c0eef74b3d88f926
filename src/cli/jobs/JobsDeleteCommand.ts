import * as JobActs from "./JobActs.js"

export const command = JobActs.command("delete", {
  action: "delete",
  about: "Delete jobs that are not running.",
  act: (jobAdmin, id) => jobAdmin.remove(id),
  said: ({ id }) => `deleted ${id}`
})
