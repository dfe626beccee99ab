package dev.terrace.objects.placement.source;

import java.io.Serial;
import java.util.List;

/// Tags cannot be set as wanted. Nothing was written.
public final class TaggingException extends RuntimeException {
    @Serial private static final long serialVersionUID = 1;

    TaggingException(List<String> problems) {
        super(String.join("\n", problems));
    }
}
