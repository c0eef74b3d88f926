// Without Effect: programs that use promises see it.

/** Where a worker process serves its health checks and metrics. */
export interface HealthOptions {
  /** Port to listen on. 0 chooses a free port. [NIGHTSHIFT_WORKER_PORT] */
  readonly port?: number | undefined
  /** Address to listen on. [NIGHTSHIFT_WORKER_HOST, else 127.0.0.1] */
  readonly host?: string | undefined
}
