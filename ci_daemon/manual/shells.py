"""Completion in bash, zsh and fish: scripts that know all commands, so that a Tab starts no program.

Each script walks over the words before the cursor: a word that continues the command's name does so, an option that
takes a value takes the next word, and other words are arguments. Then it completes the value of the last option, or an
option, or the next word of the name, or the next argument. Names of a server's it reads in the file in which commands
keep those that they met.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ci_daemon.manual.pages import Accepted, Values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ci_daemon.manual.pages import CommandPage

_BASH = """\
# Completion of ci-daemon in bash. Only files need a process, which takes longer than all else.
_ci_daemon_tables() {
    case $1 in
%(commands)s
    esac
}

_ci_daemon_value() {
    case $1 in
%(values)s
    *) kind= ;;
    esac
}

_ci_daemon_known() {
    local line file=${XDG_CACHE_HOME:-$HOME/.cache}/ci-daemon/names
    [[ -r $file ]] || return
    while IFS= read -r line; do
        [[ $line == "$1$2"* ]] && COMPREPLY+=("${line#"$1"}")
    done <"$file"
}

_ci_daemon() {
    local current=$2 name= kind= values= commands= options= arguments= first= count=0 word index
    COMPREPLY=()
    _ci_daemon_tables ''
    for ((index = 1; index < COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        if [[ -n $kind ]]; then
            kind=
        elif [[ $word == -* ]]; then
            _ci_daemon_value "$name:$word"
        elif [[ " $commands " == *" $word "* ]]; then
            name="${name:+$name }$word"
            _ci_daemon_tables "$name"
        else
            first=${first:-$word} count=$((count + 1))
        fi
    done
    if [[ -z $kind ]]; then
        if [[ $current == -* ]]; then
            kind=words values=$options
        elif [[ -n $commands ]]; then
            kind=words values=$commands
        else
            for ((index = 0; index < count; index++)); do arguments=${arguments#*;}; done
            arguments=${arguments%%%%;*} kind=${arguments%%%%:*} values=${arguments#*:}
        fi
    fi
    case $kind in
    words) for word in $values; do [[ $word == "$current"* ]] && COMPREPLY+=("$word"); done ;;
    files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    folders) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    known) values=${values/@/"$first"}; _ci_daemon_known "$values" "$current" ;;
    esac
}
complete -F _ci_daemon ci-daemon
"""

_ZSH = """\
#compdef ci-daemon
# Completion of ci-daemon in zsh.
_ci_daemon_tables() {
    case $1 in
%(commands)s
    esac
}

_ci_daemon_value() {
    case $1 in
%(values)s
    *) kind= ;;
    esac
}

_ci_daemon() {
    local name= kind= values= arguments= first= word index
    local file=${XDG_CACHE_HOME:-$HOME/.cache}/ci-daemon/names
    local -a commands options lines
    local -i count
    _ci_daemon_tables ''
    for ((index = 2; index < CURRENT; index++)); do
        word=${words[index]}
        if [[ -n $kind ]]; then
            kind=
        elif [[ $word == -* ]]; then
            _ci_daemon_value "$name:$word"
        elif (( ${commands[(I)$word:*]} )); then
            name="${name:+$name }$word"
            _ci_daemon_tables "$name"
        else
            first=${first:-$word} count+=1
        fi
    done
    if [[ -z $kind ]]; then
        if [[ ${words[CURRENT]} == -* ]]; then
            _describe -o option options
            return
        elif (( ${#commands} )); then
            _describe command commands
            return
        fi
        repeat count; do arguments=${arguments#*;}; done
        arguments=${arguments%%%%;*} kind=${arguments%%%%:*} values=${arguments#*:}
    fi
    case $kind in
    words) compadd -- ${=values} ;;
    files) _files ;;
    folders) _files -/ ;;
    known)
        values=${values/@/$first}
        [[ -r $file ]] && lines=(${(f)"$(<$file)"})
        compadd -- ${${(M)lines:#$values*}#$values}
        ;;
    esac
}
compdef _ci_daemon ci-daemon
"""

_FISH = """\
# Completion of ci-daemon in fish.
function __ci_daemon_tables
    switch $argv[1]
%(commands)s
    end
end

function __ci_daemon_value
    switch $argv[1]
%(values)s
    end
end

function __ci_daemon_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l current (commandline --current-token --cut-at-cursor)
    set -l name ''
    set -l kind ''
    set -l arguments
    for word in $words[2..]
        if test -n "$kind"
            set kind ''
        else if string match --quiet -- '-*' $word
            set kind (__ci_daemon_value "$name:$word")
        else if __ci_daemon_tables $name | string match --quiet --regex -- "^command $word\\t"
            set name (string trim -- "$name $word")
        else
            set -a arguments $word
        end
    end
    if test -z "$kind"
        if string match --quiet -- '-*' $current
            __ci_daemon_tables $name | string replace --filter --regex '^option ' ''
            return
        end
        set -l commands (__ci_daemon_tables $name | string replace --filter --regex '^command ' '')
        if test (count $commands) -gt 0
            printf '%%s\\n' $commands
            return
        end
        set -l kinds (__ci_daemon_tables $name | string replace --filter --regex '^argument ' '' | string split ';')
        set kind $kinds[(math min (count $arguments) + 1, (count $kinds))]
    end
    switch $kind
        case 'words:*'
            string split ' ' -- (string sub --start 7 -- $kind)
        case 'files:'
            __fish_complete_path $current
        case 'folders:'
            __fish_complete_directories $current ''
        case 'known:*'
            set -l lines (string replace '@' "$arguments[1]" (string sub --start 7 -- $kind))
            set -q XDG_CACHE_HOME; or set -l XDG_CACHE_HOME $HOME/.cache
            set -l file $XDG_CACHE_HOME/ci-daemon/names
            test -r $file; and string replace --filter --regex -- '^'(string escape --style regex -- $lines) '' <$file
    end
end
complete --command ci-daemon --no-files --arguments '(__ci_daemon_complete)'
"""


def completion_script(shell: str, pages: Sequence[CommandPage]) -> str:
    """Return the script of a shell."""
    return SHELLS[shell](pages)


def _bash(pages: Sequence[CommandPage]) -> str:
    commands = [
        f"    {shlex.quote(page.words)}) commands={shlex.quote(' '.join(page.commands))}"
        f" options={shlex.quote(' '.join(_option_names(page)))} arguments={shlex.quote(_arguments(page))} ;;"
        for page in pages
    ]
    return _BASH % {"commands": "\n".join(commands), "values": "\n".join(_value_cases(pages))}


def _zsh(pages: Sequence[CommandPage]) -> str:
    lines = {page.words: page.line for page in pages}

    def described(pairs: Iterable[tuple[str, str]]) -> str:
        return " ".join(shlex.quote(f"{name.replace(':', chr(92) + ':')}:{text}") for name, text in pairs)

    commands = [
        f"    {shlex.quote(page.words)}) commands=({described(_described_commands(page, lines))})"
        f" options=({described(_described_options(page))}) arguments={shlex.quote(_arguments(page))} ;;"
        for page in pages
    ]
    return _ZSH % {"commands": "\n".join(commands), "values": "\n".join(_value_cases(pages))}


def _fish(pages: Sequence[CommandPage]) -> str:
    lines = {page.words: page.line for page in pages}

    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def rows(page: CommandPage) -> Iterator[str]:
        yield from (f"command {name}\t{text}" for name, text in _described_commands(page, lines))
        yield from (f"option {name}\t{text}" for name, text in _described_options(page))
        yield f"argument {_arguments(page)}"

    commands = [
        f"        case {quoted(page.words)}\n            printf '%s\\n' {' '.join(map(quoted, rows(page)))}"
        for page in pages
    ]
    values = [
        f"        case {' '.join(quoted(name) for name in names)}\n            echo {quoted(kind)}"
        for kind, names in _valued(pages).items()
    ]
    return _FISH % {"commands": "\n".join(commands), "values": "\n".join(values)}


def _option_names(page: CommandPage) -> list[str]:
    return [name for option in page.options for name in option.names]


def _described_options(page: CommandPage) -> Iterator[tuple[str, str]]:
    return ((name, option.help) for option in page.options for name in option.names)


def _described_commands(page: CommandPage, lines: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, lines[f"{page.words} {name}".strip()]) for name in page.commands)


def _arguments(page: CommandPage) -> str:
    """Return the kinds of the arguments in their order; the last is that of any more."""
    return ";".join(map(_kind, page.arguments or (Accepted(Values.TEXT),)))


def _kind(accepted: Accepted) -> str:
    return f"{accepted.values}:{' '.join(accepted.words)}"


def _valued(pages: Sequence[CommandPage]) -> dict[str, list[str]]:
    """Return the options that take a value, as `COMMAND:OPTION`, by the kind of the value."""
    found: dict[str, list[str]] = {}
    for page in pages:
        for option in page.options:
            if option.accepted.values is not Values.NONE:
                found.setdefault(_kind(option.accepted), []).extend(f"{page.words}:{name}" for name in option.names)
    return found


def _value_cases(pages: Sequence[CommandPage]) -> Iterator[str]:
    for kind, names in _valued(pages).items():
        name, _, words = kind.partition(":")
        yield f"    {'|'.join(map(shlex.quote, names))}) kind={name} values={shlex.quote(words)} ;;"


SHELLS: Mapping[str, Callable[[Sequence[CommandPage]], str]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
"""The shells, and what writes their scripts."""
