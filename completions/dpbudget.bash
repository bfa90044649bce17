# bash completion for dpbudget. Written by `make completions` from the command line itself: do not edit.
# Source this file from ~/.bashrc, or copy it to ~/.local/share/bash-completion/completions/dpbudget.

# _dpbudget_command PATH [OPTION|POSITION]: what stands in one command, and what its option or argument may be.
_dpbudget_command() {
    commands='' options='' flags='' one='' many='' file=''
    case $1 in
    'dpbudget')
        commands='epsilon delta explain compare tune federated sigma steps rate gaussian table plan init check solve status record import risk verify simulate'
        options='-V --version -h --help'
        flags='-V --version -h --help'
        ;;
    'dpbudget epsilon')
        options='-s --noise-multiplier --sigma -q --sampling-rate -b --batch-size -n --dataset-size -t --steps -E --epochs -C --clip-norm --noise-std --noise-on --devices --accumulate --loader --history --sampling --adjacency --unit --group-size --max-batch --microbatches -d --delta --max-epsilon --adaptive --tolerance -a --accountant --plot -f --format --json -o --output --digits -v --explain --verbose --quiet -h --help'
        flags='--microbatches --adaptive --json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        --noise-on) one='sum mean' ;;
        --loader) one='exact opacus tf-privacy' ;;
        --history) file=yes ;;
        --sampling) one='poisson fixed-size shuffle balls-in-bins full-batch' ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        --unit) one='example client user' ;;
        -a | --accountant) many='pld rdp rdp-classic moments basic strong kov kov-exact zcdp gdp-clt rule-of-thumb all' ;;
        --plot) file=yes ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        esac
        ;;
    'dpbudget delta')
        options='-s --noise-multiplier --sigma -q --sampling-rate -b --batch-size -n --dataset-size -t --steps -E --epochs -C --clip-norm --noise-std --noise-on --devices --accumulate --loader --history --sampling --adjacency --unit --group-size --max-batch --microbatches -e --epsilon --tolerance -a --accountant -f --format --json -o --output --digits -v --explain --verbose --quiet -h --help'
        flags='--microbatches --json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        --noise-on) one='sum mean' ;;
        --loader) one='exact opacus tf-privacy' ;;
        --history) file=yes ;;
        --sampling) one='poisson fixed-size shuffle balls-in-bins full-batch' ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        --unit) one='example client user' ;;
        -a | --accountant) many='pld rdp rdp-classic moments basic strong kov kov-exact zcdp gdp-clt rule-of-thumb all' ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        esac
        ;;
    'dpbudget explain')
        options='-s --noise-multiplier --sigma -q --sampling-rate -b --batch-size -n --dataset-size -t --steps -E --epochs -C --clip-norm --noise-std --noise-on --devices --accumulate --loader --history --sampling --adjacency --unit --group-size --max-batch --microbatches -d --delta --max-epsilon --adaptive --tolerance -a --accountant --plot -f --format --json -o --output --digits -v --explain --verbose --quiet -h --help'
        flags='--microbatches --adaptive --json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        --noise-on) one='sum mean' ;;
        --loader) one='exact opacus tf-privacy' ;;
        --history) file=yes ;;
        --sampling) one='poisson fixed-size shuffle balls-in-bins full-batch' ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        --unit) one='example client user' ;;
        -a | --accountant) many='pld rdp rdp-classic moments basic strong kov kov-exact zcdp gdp-clt rule-of-thumb all' ;;
        --plot) file=yes ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        esac
        ;;
    'dpbudget compare')
        options='-s --noise-multiplier --sigma -q --sampling-rate -b --batch-size -n --dataset-size -t --steps -E --epochs -C --clip-norm --noise-std --noise-on --devices --accumulate --loader --sampling --adjacency --unit --max-batch -d --delta --tolerance -a --accountant -f --format --json -o --output --digits -v --explain --verbose --quiet -h --help'
        flags='--json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        --noise-on) one='sum mean' ;;
        --loader) one='exact opacus tf-privacy' ;;
        --sampling) one='poisson fixed-size shuffle balls-in-bins full-batch' ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        --unit) one='example client user' ;;
        -a | --accountant) many='pld rdp rdp-classic moments basic strong kov kov-exact zcdp gdp-clt rule-of-thumb all' ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        esac
        ;;
    'dpbudget tune')
        options='-s --noise-multiplier --sigma -q --sampling-rate -b --batch-size -n --dataset-size -t --steps -E --epochs -C --clip-norm --noise-std --noise-on --devices --accumulate --loader --history --sampling --adjacency --unit --group-size --max-batch --microbatches -d --delta -e --epsilon --max-epsilon --tolerance -a --accountant -f --format --json -o --output --digits -v --explain --verbose --quiet -k --trials --law --eta --most-trials --public -h --help'
        flags='--microbatches --json -v --explain --verbose --quiet --public -h --help'
        case ${2-} in
        --noise-on) one='sum mean' ;;
        --loader) one='exact opacus tf-privacy' ;;
        --history) file=yes ;;
        --sampling) one='poisson fixed-size shuffle balls-in-bins full-batch' ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        --unit) one='example client user' ;;
        -a | --accountant) one='pld rdp rdp-classic moments basic strong kov kov-exact zcdp gdp-clt rule-of-thumb' ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        --law) one='poisson geometric negative-binomial logarithmic binomial fixed' ;;
        esac
        ;;
    'dpbudget federated')
        options='-e --epsilon -d --delta --max-epsilon --tolerance -a --accountant -f --format --json -o --output --digits -v --explain --verbose --quiet -n --clients --dataset-size -b --clients-per-round --batch-size -q --sampling-rate -t --rounds --steps -s --noise-multiplier --sigma --noise-at --min-honest -C --clip-norm --clip-count-std --max-participations --tree --local-size --sizes --local-batch --local-epochs --local-noise-multiplier --local-sigma --sampling --adjacency -h --help'
        flags='--json -v --explain --verbose --quiet --tree -h --help'
        case ${2-} in
        -a | --accountant) many='pld rdp rdp-classic moments basic strong kov kov-exact zcdp gdp-clt rule-of-thumb all' ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        --noise-at) one='server shared client' ;;
        --sizes) file=yes ;;
        --sampling) one='poisson fixed-size full-batch' ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        esac
        ;;
    'dpbudget sigma')
        options='-q --sampling-rate -b --batch-size -n --dataset-size -t --steps -E --epochs -C --clip-norm --devices --accumulate --loader --sampling --adjacency --unit --group-size --max-batch --microbatches -e --epsilon -d --delta --tolerance -a --accountant -f --format --json -o --output --digits -v --explain --verbose --quiet -h --help'
        flags='--microbatches --json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        --loader) one='exact opacus tf-privacy' ;;
        --sampling) one='poisson fixed-size shuffle balls-in-bins full-batch' ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        --unit) one='example client user' ;;
        -a | --accountant) many='pld rdp rdp-classic moments basic strong kov kov-exact zcdp gdp-clt rule-of-thumb all' ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        esac
        ;;
    'dpbudget steps')
        options='-s --noise-multiplier --sigma -q --sampling-rate -b --batch-size -n --dataset-size -C --clip-norm --noise-std --noise-on --devices --accumulate --loader --sampling --adjacency --unit --group-size --max-batch --microbatches -e --epsilon -d --delta --tolerance -a --accountant -f --format --json -o --output --digits -v --explain --verbose --quiet -h --help'
        flags='--microbatches --json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        --noise-on) one='sum mean' ;;
        --loader) one='exact opacus tf-privacy' ;;
        --sampling) one='poisson fixed-size shuffle balls-in-bins full-batch' ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        --unit) one='example client user' ;;
        -a | --accountant) many='pld rdp rdp-classic moments basic strong kov kov-exact zcdp gdp-clt rule-of-thumb all' ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        esac
        ;;
    'dpbudget rate')
        options='-s --noise-multiplier --sigma -n --dataset-size -t --steps -C --clip-norm --noise-std --noise-on --sampling --adjacency --unit --group-size --max-batch --microbatches -e --epsilon -d --delta --tolerance -a --accountant -f --format --json -o --output --digits -v --explain --verbose --quiet -h --help'
        flags='--microbatches --json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        --noise-on) one='sum mean' ;;
        --sampling) one='poisson fixed-size shuffle balls-in-bins full-batch' ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        --unit) one='example client user' ;;
        -a | --accountant) many='pld rdp rdp-classic moments basic strong kov kov-exact zcdp gdp-clt rule-of-thumb all' ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        esac
        ;;
    'dpbudget gaussian')
        options='-e --epsilon -d --delta -f --format --json -o --output --digits -v --explain --verbose --quiet -s --noise-multiplier --sigma --noise-std --sensitivity -h --help'
        flags='--json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        esac
        ;;
    'dpbudget table')
        options='-s --noise-multiplier --sigma -q --sampling-rate -b --batch-size -n --dataset-size -t --steps -E --epochs -C --clip-norm --noise-std --noise-on --devices --accumulate --loader --history --sampling --adjacency --unit --group-size --max-batch --microbatches -e --epsilon -d --delta --max-epsilon --tolerance -a --accountant -f --format --json -o --output --digits -v --explain --verbose --quiet -h --help'
        flags='--microbatches --json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        --noise-on) one='sum mean' ;;
        --loader) one='exact opacus tf-privacy' ;;
        --history) file=yes ;;
        --sampling) one='poisson fixed-size shuffle balls-in-bins full-batch' ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        --unit) one='example client user' ;;
        -a | --accountant) many='pld rdp rdp-classic moments basic strong kov kov-exact zcdp gdp-clt rule-of-thumb all' ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        esac
        ;;
    'dpbudget plan')
        options='-e --epsilon -d --delta --tolerance -a --accountant --plot -f --format --json -o --output --digits -v --explain --verbose --quiet -n --dataset-size -b --batch-size -E --epochs -C --clip-norm --max-epochs --max-batch --target-snr --sampling --adjacency -h --help'
        flags='--json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        -a | --accountant) one='pld rdp rdp-classic moments basic strong kov kov-exact zcdp gdp-clt rule-of-thumb' ;;
        --plot) file=yes ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        --sampling) one='poisson fixed-size' ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        esac
        ;;
    'dpbudget init')
        options='-f --format --json -o --output --digits -v --explain --verbose --quiet -e --epsilon -d --delta --adjacency --unit --force -h --help'
        flags='--json -v --explain --verbose --quiet --force -h --help'
        case ${2-} in
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        --unit) one='example client user' ;;
        0) file=yes ;;
        esac
        ;;
    'dpbudget check')
        options='--tolerance -f --format --json -o --output --digits -v --explain --verbose --quiet --baseline --annotate --summary --outputs --exit-zero -h --help'
        flags='--json -v --explain --verbose --quiet --annotate --exit-zero -h --help'
        case ${2-} in
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        --baseline) file=yes ;;
        --summary) file=yes ;;
        --outputs) file=yes ;;
        0) file=yes ;;
        esac
        ;;
    'dpbudget solve')
        options='--tolerance -f --format --json -o --output --digits -v --explain --verbose --quiet --write -h --help'
        flags='--json -v --explain --verbose --quiet --write -h --help'
        case ${2-} in
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        0) file=yes ;;
        esac
        ;;
    'dpbudget status')
        options='--tolerance -f --format --json -o --output --digits -v --explain --verbose --quiet -h --help'
        flags='--json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        0) file=yes ;;
        esac
        ;;
    'dpbudget record')
        options='-s --noise-multiplier --sigma -q --sampling-rate -b --batch-size -n --dataset-size -t --steps -E --epochs -C --clip-norm --noise-std --sampling --tolerance -f --format --json -o --output --digits -v --explain --verbose --quiet --name --mechanism --set --force -h --help'
        flags='--json -v --explain --verbose --quiet --force -h --help'
        case ${2-} in
        --sampling) one='poisson fixed-size shuffle balls-in-bins full-batch' ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        --mechanism) one='dp-sgd tuning federated gaussian laplace randomized-response pure-dp approx-dp zcdp' ;;
        0) file=yes ;;
        esac
        ;;
    'dpbudget import')
        options='-d --delta --tolerance -f --format --json -o --output --digits -v --explain --verbose --quiet --append --reported --noise-relative-to -h --help'
        flags='--json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        --append) file=yes ;;
        --noise-relative-to) one='clipping-norm sensitivity' ;;
        0) one='opacus flower csv' ;;
        1) file=yes ;;
        esac
        ;;
    'dpbudget risk')
        options='-s --noise-multiplier --sigma -q --sampling-rate -b --batch-size -n --dataset-size -t --steps -E --epochs -C --clip-norm --noise-std --noise-on --devices --accumulate --loader --history --sampling --adjacency --unit --group-size --max-batch --microbatches -d --delta --plot -f --format --json -o --output --digits -v --explain --verbose --quiet -e --epsilon --fpr --prior --failure --reconstruction-baseline --floor --target-advantage --target-tpr --at-fpr -h --help'
        flags='--microbatches --json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        --noise-on) one='sum mean' ;;
        --loader) one='exact opacus tf-privacy' ;;
        --history) file=yes ;;
        --sampling) one='poisson fixed-size shuffle balls-in-bins full-batch' ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        --unit) one='example client user' ;;
        --plot) file=yes ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        esac
        ;;
    'dpbudget verify')
        options='-s --noise-multiplier --sigma -q --sampling-rate -b --batch-size -n --dataset-size -t --steps -E --epochs -C --clip-norm --noise-std --noise-on --devices --accumulate --loader --history --sampling --adjacency --unit --group-size --max-batch --microbatches -d --delta --samples --precision --confidence --seed --plain --canary --batches --empirical --scores --threshold -f --format --json -o --output --digits -v --explain --verbose --quiet -e --epsilon --claim -h --help'
        flags='--microbatches --plain --json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        --noise-on) one='sum mean' ;;
        --loader) one='exact opacus tf-privacy' ;;
        --history) file=yes ;;
        --sampling) one='poisson fixed-size shuffle balls-in-bins full-batch' ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        --unit) one='example client user' ;;
        --batches) one='drawn position' ;;
        --scores) file=yes ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        esac
        ;;
    'dpbudget simulate')
        options='-s --noise-multiplier --sigma -q --sampling-rate -b --batch-size -n --dataset-size -t --steps -E --epochs -C --clip-norm --noise-std --noise-on --devices --accumulate --loader --sampling --adjacency --unit --group-size --max-batch --microbatches -e --epsilon -d --delta --data --label --scale --ranges --held-out --features --classes --learning-rate --lr -r --repeats --seed --clients --client-column --clients-per-round --rounds --noise-at --skew --local-batch --local-epochs --local-noise-multiplier --local-sigma --local-clip-norm --tolerance -a --accountant --plot -f --format --json -o --output --digits -v --explain --verbose --quiet -h --help'
        flags='--microbatches --json -v --explain --verbose --quiet -h --help'
        case ${2-} in
        --noise-on) one='sum mean' ;;
        --loader) one='exact opacus tf-privacy' ;;
        --sampling) one='poisson fixed-size shuffle balls-in-bins full-batch' ;;
        --adjacency) one='add-or-remove-one replace-one zero-out' ;;
        --unit) one='example client user' ;;
        --data) file=yes ;;
        --ranges) file=yes ;;
        --noise-at) one='server shared client' ;;
        -a | --accountant) one='pld rdp rdp-classic moments basic strong kov kov-exact zcdp gdp-clt rule-of-thumb' ;;
        --plot) file=yes ;;
        -f | --format) one='text json markdown csv value statement' ;;
        -o | --output) file=yes ;;
        0) one='sgd federated' ;;
        esac
        ;;
    esac
}

_dpbudget() {
    # $2 is the word up to the cursor. Bash splits words at = and : (COMP_WORDBREAKS) and hands those over as words.
    local current=$2 path=dpbudget option='' position=0 closed='' glued='' head='' IFS=$' \t\n'
    local commands options flags one many file word i redirection='^[0-9]*&?[<>]'
    COMPREPLY=()
    if [[ ${3-} =~ $redirection ]]; then
        compopt -o default 2>/dev/null # nothing found here: bash completes the file name, with its own quoting
        return
    fi
    _dpbudget_command "$path"
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == = && -n $option ]]; then
            continue
        elif [[ $word == [=:] ]]; then
            glued=$((i + 1))
        elif ((i == COMP_CWORD || i == glued)); then
            continue
        elif [[ -n $option ]]; then
            option=''
        elif [[ -z $closed && $word == -- ]]; then
            closed=yes
        elif [[ -z $closed && $word == -* ]]; then
            [[ " $options " == *" $word "* && " $flags " != *" $word "* ]] && option=$word
        elif [[ " $commands " == *" $word "* ]]; then
            path+=" $word" position=0
            _dpbudget_command "$path"
        else
            position=$((position + 1))
        fi
    done
    # In the middle of a value with = or : in it there is nothing to add.
    if [[ -n $glued ]] && ((glued >= COMP_CWORD)); then
        return
    fi
    # Where the user took = out of COMP_WORDBREAKS, --option=value is one word.
    if [[ -z $option$closed && $current == --*=* ]]; then
        option=${current%%=*} head=${current%%=*}= current=${current#*=}
    fi
    if [[ -z $option$closed && $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
        return
    fi
    if [[ -z $option && -n $commands ]]; then
        COMPREPLY=($(compgen -W "$commands" -- "$current"))
        return
    fi
    _dpbudget_command "$path" "${option:-$position}"
    if [[ -n $many && $current == *,* ]]; then
        head+=${current%,*}, current=${current##*,}
    fi
    if [[ -n $file ]]; then
        compopt -o default 2>/dev/null
    elif [[ -n $one$many ]]; then
        COMPREPLY=($(compgen -P "$head" -W "$one$many" -- "$current"))
    elif [[ -z $option && -z $current && -z $closed ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    fi
}

if ((BASH_VERSINFO[0] >= 4)); then
    complete -F _dpbudget dpbudget
else
    complete -o default -F _dpbudget dpbudget # no compopt there
fi
