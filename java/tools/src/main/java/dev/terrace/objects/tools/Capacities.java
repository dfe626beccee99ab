package dev.terrace.objects.tools;

import dev.terrace.objects.placement.Device;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import picocli.CommandLine.ITypeConverter;

/// The values of `--capacity`.
final class Capacities {
    private Capacities() {}

    /// Converts the part before the equals sign.
    static final class NameConverter implements ITypeConverter<String> {
        @Override
        public String convert(String name) {
            return name;
        }
    }

    /// The devices, with the room that was said.
    static List<Device> apply(
            List<Device> devices, Map<String, Long> capacities, FileCommand command) {
        List<Device> changed = new ArrayList<>(devices);
        capacities.forEach((name, bytes) -> {
            List<String> names =
                    changed.stream().map(device -> device.name().toUpperCase(Locale.ROOT)).toList();
            int index = names.indexOf(name.toUpperCase(Locale.ROOT));
            if (index < 0) {
                throw command.wrong(
                        "--capacity: there is no device "
                                + name
                                + ", but "
                                + changed.stream().map(Device::name).toList());
            }
            changed.set(index, changed.get(index).capacity(bytes));
        });
        return changed;
    }
}
