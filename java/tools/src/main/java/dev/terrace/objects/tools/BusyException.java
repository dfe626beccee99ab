package dev.terrace.objects.tools;

import java.io.Serial;

/// A pool changes faster than all of it can be read.
final class BusyException extends RuntimeException {
    @Serial
    private static final long serialVersionUID = 1L;

    BusyException(String message) {
        super(message);
    }
}
