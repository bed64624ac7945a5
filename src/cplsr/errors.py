"""The one exception for things a user can put right, and words for its sentences."""


class InputError(ValueError):
    """Something given from outside is wrong; the message is a sentence for a person.

    It says what was given, what was wanted and what to do. The command line prints the message alone and exits with
    code 2; a traceback would only hide it.
    """


def counted(number: int, what: str) -> str:
    """A number of things in words.

    Example:
        >>> counted(1, "file"), counted(2000, "file"), counted(3, "class")
        ('1 file', '2,000 files', '3 classes')
    """
    return f"{number:,} {what}{'' if number == 1 else 'es' if what.endswith('s') else 's'}"


def first_line(error: BaseException) -> str:
    r"""The first line of an exception's message, to be quoted in a sentence; its type if it has no message.

    Example:
        >>> first_line(KeyError()), first_line(OSError("no such host\nat line 3"))
        ('KeyError', 'no such host')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0]
