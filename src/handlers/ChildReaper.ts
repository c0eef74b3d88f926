import { type ChildProcess, spawn } from "node:child_process"
import { Effect, type Scope } from "effect"

// The shell's stdin closes when this process ends for any reason, including kill -9. The shell then ends every process
// group still registered: SIGTERM, up to two seconds, SIGKILL. It runs in its own session, so signals sent to this
// process group do not reach it.
const script = `
groups=' '
while IFS= read -r line; do
  group=\${line#?}
  case $line in
    +*) groups="$groups$group " ;;
    -*) case $groups in *" $group "*) groups="\${groups%% $group *} \${groups#* $group }" ;; esac ;;
  esac
done
[ "$groups" = ' ' ] && exit
for group in $groups; do kill -s TERM -- "-$group"; done
n=0
while [ $n -lt 20 ]; do
  left=
  for group in $groups; do kill -s 0 -- "-$group" && left=1; done
  [ -z "$left" ] && exit
  sleep 0.1
  n=$((n+1))
done
for group in $groups; do kill -s KILL -- "-$group"; done
`

/** Ends child processes when this process ends, even after kill -9. */
export interface ChildReaper {
  /** Registers a process group to be ended with this process. */
  readonly watch: (group: number) => void
  /** Unregisters a group that has ended. */
  readonly forget: (group: number) => void
}

/** Runs one shell, started with the first child, until the Scope closes. */
export const make: Effect.Effect<ChildReaper, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => {
    const groups = new Set<number>()
    let shell: ChildProcess | undefined
    let closed = false

    const start = () => {
      const started = spawn("/bin/sh", ["-c", script], {
        cwd: "/",
        env: { PATH: "/usr/bin:/bin" },
        detached: true,
        stdio: ["pipe", "ignore", "ignore"]
      })
      shell = started
      started.stdin.on("error", () => {})
      // If the shell could not be started, the next `watch` tries again.
      started.on("error", () => {
        if (shell === started) shell = undefined
      })
      // If the shell was killed, start another with the same groups.
      started.on("exit", () => {
        if (shell === started) shell = undefined
        if (!closed && groups.size > 0) start()
      })
      // The shell must not keep this process's event loop alive.
      started.unref()
      if ("unref" in started.stdin && typeof started.stdin.unref === "function") started.stdin.unref()
      for (const group of groups) send(`+${group}`)
    }
    const send = (line: string) => void shell?.stdin?.write(`${line}\n`)

    return {
      watch: (group: number) => {
        groups.add(group)
        if (shell === undefined) start()
        else send(`+${group}`)
      },
      forget: (group: number) => {
        if (groups.delete(group)) send(`-${group}`)
      },
      close: () => {
        closed = true
        shell?.stdin?.end()
      }
    }
  }),
  ({ close }) => Effect.sync(close)
)
