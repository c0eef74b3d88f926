/** Whether a log line says that this machine is too busy, which is not what a test is about. */
export const isAbout = (line: string): boolean => /heartbeat was .* late because the event loop was blocked/.test(line)
