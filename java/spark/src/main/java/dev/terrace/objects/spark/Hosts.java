package dev.terrace.objects.spark;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/// The name of this node.
final class Hosts {
    private Hosts() {}

    /// The names under which Spark may know this node, as it finds them by default. Those that it
    /// does not know do no harm: locations are preferences.
    static List<String> local() {
        Set<String> names = new LinkedHashSet<>();
        for (String variable :
                List.of("SPARK_LOCAL_HOSTNAME", "SPARK_PUBLIC_DNS", "SPARK_LOCAL_IP")) {
            String value = System.getenv(variable);
            if (value != null) {
                names.add(value);
            }
        }
        try {
            InetAddress here = InetAddress.getLocalHost();
            names.add(here.getHostName());
            names.add(here.getHostAddress());
        } catch (UnknownHostException e) {
            names.add("localhost");
        }
        return List.copyOf(names);
    }
}
