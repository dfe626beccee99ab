package dev.terrace.objects.evaluation.graph;

import java.io.IOException;

/// Images, wherever they are.
interface Images extends AutoCloseable {
    /// The image of the person with this number, until the next one is asked for.
    byte[] image(int number) throws IOException;

    @Override
    void close() throws IOException;
}
