package dev.terrace.objects.collections;

import java.util.ArrayList;
import java.util.Collection;

/// Stand-in.
public final class DurableList<E> extends ArrayList<E> {
    private static final long serialVersionUID = 1;

    public DurableList(Collection<? extends E> elements) {
        super(elements);
    }
}
