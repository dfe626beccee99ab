/// Durable objects, their collections, and what generated classes need. All else is internal.
module dev.terrace.objects {
    requires java.management;
    requires jdk.jfr;
    requires jdk.nio.mapmode;
    requires static transitive org.jspecify;

    exports dev.terrace.objects;
    exports dev.terrace.objects.collections;
    exports dev.terrace.objects.spi;

    uses dev.terrace.objects.ProfileSink;
}
