"""Every choice a person can make, declared once: options, recipes, Python and the files of a run all read it here."""
