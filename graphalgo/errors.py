"""The one error a user meets when what they gave cannot be used."""


class InputError(ValueError):
    """Something the user gave is wrong: the message says what was expected, what came and what to do."""


def check_at_least(least: int, **values: int) -> None:
    """Refuses values, by their name, that are smaller.

    Raises:
        InputError: if one is.
    """
    for name, value in values.items():
        if value < least:
            raise InputError(f"{name} must be at least {least}, got {value}")
