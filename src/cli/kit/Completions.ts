import { type Command, help, optionName } from "./Command.js"
import { type Placed, placed } from "./Help.js"
import type { Value } from "./Input.js"

// Scripts that complete command lines in a shell. Each finds the command that the words name and offers its subcommands,
// its options, and the choices, files or folders of an option's value.

export const shells = ["bash", "zsh", "fish"] as const

/** Text in single quotes of a shell. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

const pathOf = ({ path }: Placed) => quoted(["nightshift", ...path].join(" "))

const choicesOf = (value: Value<unknown> | undefined) => (Array.isArray(value?.offers) ? value.offers.join(" ") : "")

const optionsOf = ({ options }: Command) =>
  Object.entries({ help, ...options }).map(([key, input]) => ({
    name: optionName(key),
    ...input,
    choices: choicesOf(input.value)
  }))

const pathsBelow = (all: ReadonlyArray<Placed>) => all.slice(1).map(pathOf).join("|")

/** Where the script offers nothing, bash completes file names. */
const bash = (all: ReadonlyArray<Placed>) => {
  const offer = (words: string) => `COMPREPLY=($(compgen -W ${quoted(words)} -- "$current"))`
  const values = all.flatMap(({ command, path }) =>
    optionsOf(command).flatMap(({ choices, name, value }) =>
      value === undefined
        ? []
        : `    ${quoted(["nightshift", ...path, `--${name}`].join(" "))}) ${choices === "" ? ":" : offer(choices)} ;;`
    )
  )
  const words = all.map((each) => {
    const options = optionsOf(each.command).map(({ name }) => `--${name}`)
    return `      ${pathOf(each)}) ${offer([...Object.keys(each.command.commands), ...options].join(" "))} ;;`
  })
  return `_nightshift_bash_completions() {
  local at=nightshift word current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}"
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$at $word" in
      ${pathsBelow(all)}) at="$at $word" ;;
    esac
  done
  COMPREPLY=()
  case "$at $previous" in
${values.join("\n")}
    *) case "$at" in
${words.join("\n")}
    esac ;;
  esac
}
complete -F _nightshift_bash_completions -o bashdefault -o default nightshift`
}

/** What zsh offers for the value of an option. */
const zshValue = (value: Value<unknown> | undefined) => {
  if (value === undefined) return ""
  if (value.offers === "files") return ":file:_files"
  if (value.offers === "folders") return ":folder:_files -/"
  return `:value:${choicesOf(value) === "" ? " " : `(${choicesOf(value)})`}`
}

const zsh = (all: ReadonlyArray<Placed>) => {
  const escaped = (text: string) => text.replace(/[\\[\]:]/g, "\\$&")
  const cases = all.flatMap((each) => {
    const commands = Object.entries(each.command.commands).map(([name, { about }]) => quoted(`${name}:${about}`))
    const options = optionsOf(each.command).map(
      ({ about, isRepeated, name, value }) =>
        `                ${quoted(`${isRepeated ? "*" : ""}--${name}[${escaped(about)}]${zshValue(value)}`)} \\`
    )
    return [
      `        (${pathOf(each)})`,
      ...(commands.length === 0
        ? []
        : [
            `            commands=(${commands.join(" ")})`,
            "            _describe -t commands command commands && ret=0"
          ]),
      "            _arguments -s -S \\",
      ...options,
      "                '*:value: ' \\",
      "                && ret=0",
      "        ;;"
    ]
  })
  return `#compdef nightshift
function _nightshift_zsh_completions() {
    local ret=1 at=nightshift
    local -a commands
    while (( CURRENT > 2 )); do
        case "$at \${words[2]}" in
            (${pathsBelow(all)}) at="$at \${words[2]}"; shift words; (( CURRENT-- )) ;;
            (*) break ;;
        esac
    done
    case "$at" in
${cases.join("\n")}
    esac
    return ret
}
if [ "$funcstack[1]" = "_nightshift_zsh_completions" ]; then
    _nightshift_zsh_completions "$@"
else
    compdef _nightshift_zsh_completions nightshift
fi`
}

const fish = (all: ReadonlyArray<Placed>) => {
  const lines = all.flatMap(({ command, path }) => {
    const names = Object.keys(command.commands)
    const seen = path.map((word) => `__fish_seen_subcommand_from ${word}`)
    const here = path.length === 0 ? "__fish_use_subcommand" : seen.join("; and ")
    const open =
      path.length === 0 || names.length === 0 ? here : `${here}; and not __fish_seen_subcommand_from ${names.join(" ")}`
    const line = (rest: string) => `complete -c nightshift -n "${open}" ${rest}`
    return [
      ...Object.entries(command.commands).map(([name, { about }]) => line(`-f -a ${name} -d ${quoted(about)}`)),
      ...optionsOf(command).map(({ about, choices, name, value }) => {
        const takes =
          typeof value?.offers === "string" ? " -r -F" : ` -r -f${choices === "" ? "" : ` -a ${quoted(choices)}`}`
        return line(`-l ${name}${value === undefined ? "" : takes} -d ${quoted(about)}`)
      })
    ]
  })
  return ["complete -c nightshift -f", ...lines].join("\n")
}

/** The script that completes `nightshift` in a shell. */
export const script = (shell: (typeof shells)[number], root: Command): string =>
  ({ bash, zsh, fish })[shell](placed(root))
