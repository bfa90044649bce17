#!/bin/sh
# Sets up dpbudget and its peers in an environment of their own, .venv-bench, and measures: make bench.
# A peer that can't be installed is left out here and reported as missing by the measurement.
# Arguments go to the measurement: see `python -m benchmarks --help`.
set -eu
cd "$(dirname "$0")/.."

ENVIRONMENT=.venv-bench
BIN=$ENVIRONMENT/bin
PIP="$BIN/python -m pip install --quiet --disable-pip-version-check"

# $1 runs and is Python 3.11 to 3.13, which is where all the peers have wheels.
fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null
}

if [ ! -x "$BIN/python" ]; then
    for python in ${PYTHON:-python3} python3.13 python3.12 python3.11; do
        if fits "$python"; then
            "$python" -m venv $ENVIRONMENT
            break
        fi
    done
fi
if [ ! -x "$BIN/python" ]; then
    echo 'benchmarks: no Python 3.11, 3.12 or 3.13 found; set PYTHON=' >&2
    exit 1
fi

install() {
    # shellcheck disable=SC2086
    $PIP "$@" || echo "benchmarks: could not install $*; it will be reported as missing" >&2
}

if [ ! -e $ENVIRONMENT/.ready ]; then
    $PIP --editable .
    install dp-accounting
    install prv-accountant
    install dp-accelerator
    install opake-accounting
    install --no-deps opacus # its accountants need NumPy and SciPy alone; PyTorch is half a gigabyte and more
    touch $ENVIRONMENT/.ready
fi

# One thread of linear algebra each: nobody here gains from more, and idle threads disturb the others.
OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 exec "$BIN/python" -m benchmarks "$@"
