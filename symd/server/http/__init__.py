"""What symd serves over HTTP: the page for people, and the protocols that other tools speak. Routes are modules of
``routes``; who is let in is a ``HttpAuthenticator``, and where work is done a ``HttpWorkQueue``, both given by whoever
starts the server: a daemon, or ``symd view``."""
