"""`python -m paper NAME`, from a clone."""

from paper.command import main

if __name__ == "__main__":
    main()
