"""The program: what the `shadowmetric` command does, room by room. Needs the extra `app`."""
