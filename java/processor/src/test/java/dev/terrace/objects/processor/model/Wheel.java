package dev.terrace.objects.processor.model;

import dev.terrace.objects.Durable;

/// Extends a tagged class of which there are objects too.
@Durable
class Wheel extends Part {
    int spokes;
    Part axle;
    Spare spare;

    /// A nested class.
    @Durable
    static class Spare {
        int pressure;
        Wheel of;
    }
}
