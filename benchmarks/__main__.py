"""`python -m benchmarks NAME`, from a clone."""

from benchmarks.command import main

if __name__ == "__main__":
    main()
