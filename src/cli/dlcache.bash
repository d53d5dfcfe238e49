# bash completion for dlcache. Commands and options are asked of the program itself, so they are always
# those of the version installed.

_dlcache()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} program=${COMP_WORDS[0]}
    local commands command sub=() subs

    COMPREPLY=()
    commands=$("$program" --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "$commands" -- "$cur"))
        return
    fi
    command=${COMP_WORDS[1]}
    if [[ " tenant dataset job node manager " == *" $command "* ]]; then
        subs=$("$program" "$command" --help 2>/dev/null | sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p')
        if ((COMP_CWORD == 2)) && [[ $cur != -* ]]; then
            COMPREPLY=($(compgen -W "$subs" -- "$cur"))
            return
        fi
        [[ " ${subs//$'\n'/ } " == *" ${COMP_WORDS[2]} "* ]] && sub=("${COMP_WORDS[2]}")
    fi
    if [[ $command == help ]]; then
        COMPREPLY=($(compgen -W "$commands man" -- "$cur"))
        return
    fi
    case $prev in
    --config | --socket | --token-file | --from-file) COMPREPLY=($(compgen -f -- "$cur")) && return ;;
    --dir) COMPREPLY=($(compgen -d -- "$cur")) && return ;;
    --log-level) COMPREPLY=($(compgen -W "error warn info debug" -- "$cur")) && return ;;
    --trace | --chunks | --each) COMPREPLY=($(compgen -f -- "$cur")) && return ;;
    --workload | -w) COMPREPLY=($(compgen -W "mix epochs" -- "$cur")) && return ;;
    --measure | -m) COMPREPLY=($(compgen -W "seconds hits bytes money" -- "$cur")) && return ;;
    --mode) COMPREPLY=($(compgen -W "lazy partitioned" -- "$cur")) && return ;;
    --state) COMPREPLY=($(compgen -W "PREPARE PENDING ACTIVE COOL_DOWN INACTIVE" -- "$cur")) && return ;;
    --tier) COMPREPLY=($(compgen -W "memory disk all" -- "$cur")) && return ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$({
            "$program" "$command" "${sub[@]}" --help
            # A server lists its settings itself; a command takes its own and those of a daemon.
            [[ " serve node manager operator " == *" $command "* ]] && ((${#sub[@]} == 0)) ||
                "$program" help config | sed -n 's/^| `\(--[a-z-]*\)` | `[A-Z_]*` | .*\(commands\|serve\).* | .*/  \1/p'
        } 2>/dev/null | sed -n 's/^  \(-[a-z], \)\{0,1\}\(--[a-z][a-z-]*\).*/\2/p' | sort -u)" -- "$cur"))
    fi
}
complete -o default -F _dlcache dlcache
