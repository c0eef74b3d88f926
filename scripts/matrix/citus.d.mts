export const createDatabase: (coordinator: string, workers: ReadonlyArray<string>, name: string) => Promise<void>
export const dropDatabase: (coordinator: string, workers: ReadonlyArray<string>, name: string) => Promise<void>
