import { type ChildProcess, spawn } from "node:child_process"
import { Effect, type Scope } from "effect"

// Our end of the shell's stdin closes when this process ends in whatever way, kill -9 too. Then the shell ends every group
// that it was told of and not told to forget: TERM, two seconds at most, KILL. It has a session of its own, so that what is
// meant for this process does not end it.
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

/** Sees to it that children do not outlive this process, however it ends. */
export interface ChildReaper {
  /** From now on this process group ends when we do. */
  readonly watch: (group: number) => void
  /** The group is over. */
  readonly forget: (group: number) => void
}

/** Keeps watch until the Scope closes, by one small shell that is started with the first child. */
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
      // The system would not start it now; the next child asks again.
      started.on("error", () => {
        if (shell === started) shell = undefined
      })
      // Somebody may have killed it: another takes over what it knew.
      started.on("exit", () => {
        if (shell === started) shell = undefined
        if (!closed && groups.size > 0) start()
      })
      // It must not keep a program from ending that has nothing else to do.
      started.unref()
      if ("unref" in started.stdin && typeof started.stdin.unref === "function") started.stdin.unref()
      for (const group of groups) tell(`+${group}`)
    }
    const tell = (word: string) => void shell?.stdin?.write(`${word}\n`)

    return {
      watch: (group: number) => {
        groups.add(group)
        if (shell === undefined) start()
        else tell(`+${group}`)
      },
      forget: (group: number) => {
        if (groups.delete(group)) tell(`-${group}`)
      },
      close: () => {
        closed = true
        shell?.stdin?.end()
      }
    }
  }),
  ({ close }) => Effect.sync(close)
)
