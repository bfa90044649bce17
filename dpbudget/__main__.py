"""python -m dpbudget."""

from dpbudget.cli import main

main()
