"""The one exception for things a user can put right."""


class InputError(ValueError):
    """Something given from outside is wrong; the message is a sentence for a person.

    It says what was given, what was wanted and what to do. The command line prints the message alone and exits with
    code 2; a traceback would only hide it.
    """
