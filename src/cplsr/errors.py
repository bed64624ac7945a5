"""The one exception for things a user can put right."""


class InputError(ValueError):
    """Something given from outside is wrong; the message is a sentence for a person.

    It says what was given, what was wanted and what to do. The command line prints the message alone and exits with
    code 2; a traceback would only hide it.
    """


def first_line(error: BaseException) -> str:
    r"""The first line of an exception's message, to be quoted in a sentence; its type if it has no message.

    Example:
        >>> first_line(KeyError()), first_line(OSError("no such host\nat line 3"))
        ('KeyError', 'no such host')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0]
