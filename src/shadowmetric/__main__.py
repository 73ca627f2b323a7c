"""`python -m shadowmetric` is the `shadowmetric` command."""

from shadowmetric.app.cli import main

if __name__ == "__main__":
    main()
