"""What is generated from the command line: completion scripts for three shells, and docs/cli.md."""
