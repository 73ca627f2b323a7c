"""`python -m paper.heads`: heads on cached features, a study or several."""

from paper.heads.command import main

if __name__ == "__main__":
    main()
