package dev.terrace.objects.processor;

import java.util.HashSet;
import java.util.Set;
import javax.annotation.processing.Messager;
import javax.lang.model.element.Element;
import javax.tools.Diagnostic.Kind;

/// The errors that are reported to the compiler. A field that several classes inherit is complained
/// about once.
final class Problems {
    private final Messager messager;
    private final Set<String> reported = new HashSet<>();
    private int count;

    Problems(Messager messager) {
        this.messager = messager;
    }

    /// Reports an error at an element of the source.
    void at(Element element, String format, Object... values) {
        String message = format.formatted(values);
        count++;
        if (reported.add(element.getEnclosingElement() + "/" + element + ": " + message)) {
            messager.printMessage(Kind.ERROR, message, element);
        }
    }

    /// How many errors there have been, those that were not repeated included.
    int count() {
        return count;
    }
}
