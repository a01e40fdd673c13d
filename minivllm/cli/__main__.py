"""`python -m minivllm.cli` is the `minivllm` command."""

from minivllm.cli.app import main

main()
