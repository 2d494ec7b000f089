# bash completion for holdfast. A command has one line in _holdfast_options and its cases below.
declare -gA _holdfast_options=(
    [run]="-w --timeout -n --nonblock -E --conflict-exit-code -c --command --shell --lease --on-lost
        --max-hold -k --kill-after --once-per -s --shared -x --exclusive --permits --weight --ahead --rate --gate --owner --note -q --quiet -v --verbose"
    [bench]="-s --seconds -t --threads --name --plan -c --check --json"
    [ls]="--held-longer --waiting-longer --owner --once --json --rate"
    [top]="-d --delay -o --sort -r --reverse -b --batch -n --iterations --held-longer
        --waiting-longer --once --json --rate"
    [inspect]="--held-longer --waiting-longer --json --hex"
    [set]="--permits --rate --no-limit --hex"
    [break]="--fence --foreign -y --yes --json --hex"
    [once]="--state --rate --result --fence --force --note --error --ttl --json --hex"
    [members]="--json"
    [deadlocks]="--held-longer --waiting-longer --json --rate --watch"
)

# Where the words of COMMAND begin in `holdfast run NAME -- COMMAND`; 0: not yet.
_holdfast_command_at() {
    local i name=
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -w | --timeout | -E | --conflict-exit-code | -c | --command | --lease | --on-lost | \
            --max-hold | -k | --kill-after | --once-per | --permits | --weight | --ahead | --rate | --owner | --note | --url)
            ((i++))
            [[ ${COMP_WORDS[i]} != = ]] || ((i++)) # --option=value is three words
            ;;
        --) echo $((i + 1)) && return ;;
        -*) ;;
        *)
            [[ ! $name ]] || { echo $i && return; }
            name=1
            ;;
        esac
    done
    if [[ $name && ${COMP_WORDS[COMP_CWORD]} != -* ]]; then echo "$COMP_CWORD"; else echo 0; fi
}

_holdfast() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} at
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "${!_holdfast_options[*]} --help --version" -- "$current"))
        return
    fi
    if [[ $command == run ]]; then
        at=$(_holdfast_command_at)
        if ((at > 0)); then # what the command itself completes
            if declare -F _command_offset >/dev/null; then
                _command_offset "$at"
            elif ((at == COMP_CWORD)); then
                COMPREPLY=($(compgen -c -- "$current"))
            else
                COMPREPLY=($(compgen -f -- "$current"))
            fi
            return
        fi
    fi
    if [[ $command == once ]] && ((COMP_CWORD == 2)); then
        COMPREPLY=($(compgen -W "ls show resolve retry forget --url --help" -- "$current"))
        return
    fi
    case $previous in
    --state) COMPREPLY=($(compgen -W "unknown running retry failed done" -- "$current")) ;;
    --on-lost) COMPREPLY=($(compgen -W "kill term ignore" -- "$current")) ;;
    -o | --sort)
        COMPREPLY=($(compgen -W "waiters held waited remaining name fence call" -- "$current"))
        ;;
    --shell | --result | --error) COMPREPLY=($(compgen -f -- "$current")) ;;
    *)
        [[ $current != -* ]] || COMPREPLY=(
            $(compgen -W "${_holdfast_options[$command]-} --url --help" -- "$current")
        )
        ;;
    esac
}
complete -o default -F _holdfast holdfast
