"""`python -m crossprop` is the command `crossprop`."""

from crossprop.cli import main

if __name__ == "__main__":
    main()
