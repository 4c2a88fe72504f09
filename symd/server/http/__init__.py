"""What symd serves over HTTP: the page for people, and the protocols that other tools speak (``app.ROUTES``). Who is
let in is an ``HttpAuthenticator``, and where work is done an ``HttpWorkQueue``, both given by whoever starts the
server: a daemon, or ``symd view``."""
