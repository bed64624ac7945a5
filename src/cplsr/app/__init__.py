"""The web page: the classifier in a browser, on this computer, without a network."""
