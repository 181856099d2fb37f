"""The session with the controller: control link, data link, and the certificate that both show."""
