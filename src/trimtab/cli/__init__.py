"""The command `trimtab`: a file for each subcommand, listed in `main.COMMANDS`, and the job file."""
