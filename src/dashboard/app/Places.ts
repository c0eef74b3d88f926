/** All pages of the navigation, in groups. */
export const places: ReadonlyArray<readonly [group: string, ReadonlyArray<readonly [path: string, name: string]>]> = [
  [
    "",
    [
      ["overview", "Overview"],
      ["queues", "Queues"],
      ["workflows", "Workflows"],
      ["schedules", "Schedules"],
      ["events", "Events"],
      ["pods", "Processes"]
    ]
  ],
  [
    "Jobs",
    [
      ["jobs", "All jobs"],
      ["scheduled", "Scheduled"],
      ["retries", "Retries"],
      ["dead", "Dead"]
    ]
  ],
  [
    "Gateway",
    [
      ["bots", "Bots"],
      ["uploads", "Uploads"],
      ["endpoints", "Endpoints"]
    ]
  ],
  [
    "System",
    [
      ["limits", "Limits"],
      ["audit", "Audit"],
      ["database", "Database"]
    ]
  ]
]
