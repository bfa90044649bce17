#!/bin/sh
# The main job in four questions. Every command here is one that you can type.
set -eu
run() { printf '\n$ %s\n' "$*"; "$@"; }

echo "What did this DP-SGD run cost? (MNIST, noise multiplier 1.1, batch 256, 60 epochs)"
run dpbudget epsilon --sigma 1.1 --batch-size 256 --dataset-size 60000 --epochs 60 --delta 1e-5

echo; echo "How much noise would epsilon 2 have taken?"
run dpbudget sigma --epsilon 2 --delta 1e-5 --batch-size 256 --dataset-size 60000 --epochs 60

echo; echo "How long may it train within epsilon 3?"
run dpbudget steps --epsilon 3 --delta 1e-5 --sigma 1.1 --sampling-rate 0.01

echo; echo "What do the other accountants say of the same run?"
run dpbudget epsilon --sigma 1.1 --batch-size 256 --dataset-size 60000 --epochs 60 --delta 1e-5 --accountant all

echo; echo "To go on: . .venv/bin/activate, then dpbudget --help"
