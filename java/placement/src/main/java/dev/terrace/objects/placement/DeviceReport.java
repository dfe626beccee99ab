package dev.terrace.objects.placement;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/// Devices and what they cost, as a probe measured them or a user wrote them: a file that people
/// may change.
///
/// @param measured when, and on what; may be empty
/// @param devices of all tiers
public record DeviceReport(String measured, List<Device> devices) {
    private static final JsonFile<DeviceReport> FORMAT =
            new JsonFile<>("terrace-devices", 1, DeviceReport.class);

    /// Copies the devices.
    public DeviceReport {
        devices = List.copyOf(devices);
    }

    /// Reads a report.
    ///
    /// @throws IOException if the file cannot be read, or is none of devices, or of another
    ///   version, or is damaged; the message names it
    public static DeviceReport read(Path file) throws IOException {
        return FORMAT.read(file);
    }

    /// Writes it, in the place of the file if there is one.
    ///
    /// @throws IOException if that cannot be done; then the file is what it was
    public void write(Path file) throws IOException {
        FORMAT.write(file, this);
    }
}
