"""`python -m groundlab` is the command line (cli/)."""

from groundlab.cli import main

if __name__ == "__main__":
    main()
