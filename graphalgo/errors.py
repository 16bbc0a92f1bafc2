"""The one error a user meets when what they gave cannot be used."""


class InputError(ValueError):
    """Something the user gave is wrong: the message says what was expected, what came and what to do."""
