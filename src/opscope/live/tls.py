"""Trust in servers: as the system says, and by a certificate of one's own."""

from __future__ import annotations

import os
import ssl

from opscope.errors import OpscopeError

CERTIFICATE_VARIABLE = "OPSCOPE_CERTIFICATE"
"""A file with the certificate of a server, or of who has signed it."""


def trust() -> ssl.SSLContext:
    """Return what a connection to a server with TLS checks its certificate with."""
    context = ssl.create_default_context()
    file = os.environ.get(CERTIFICATE_VARIABLE, "")
    if file:
        try:
            context.load_verify_locations(file)
        except (OSError, ssl.SSLError) as error:
            reason = error.strerror or error
            raise OpscopeError(
                f"{CERTIFICATE_VARIABLE}: {file} is no certificate: {reason}"
            ) from None
    return context
