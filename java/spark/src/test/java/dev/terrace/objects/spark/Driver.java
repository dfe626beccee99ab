package dev.terrace.objects.spark;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.jspecify.annotations.Nullable;

/// A driver that appends parts to a table, as far as a directory tells.
///
/// @param log of the table
/// @param store of its parts
record Driver(ManifestLog log, PartStore store) {
    static Driver of(String directory, Configuration configuration) throws IOException {
        ManifestLog log = new ManifestLog(directory, configuration);
        PartitionOptions nowhere = PartitionOptions.defaults().pmem("/none");
        return new Driver(log, new PartStore(log.root(), nowhere, configuration));
    }

    WriteJob begin() throws IOException {
        return WriteJob.begin(log, store);
    }

    /// What an attempt of a job's task has written.
    Part written(WriteJob job) throws IOException {
        String name = WriteJob.partName(job.id(), 0, 1);
        byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
        log.root().child("parts").child(name).write("pool", bytes);
        return new Part(name, null, null, List.of(), 1, bytes.length, List.of());
    }

    /// The next manifest, with one part more.
    static Manifest with(@Nullable Manifest present, Part part) {
        if (present == null) {
            return new Manifest(1, Manifest.TABLE, "{}", Map.of(), List.of(part));
        }
        List<Part> all = new ArrayList<>(present.parts());
        all.add(part);
        return present.next(all);
    }

    /// Appends a part.
    ///
    /// @return its name
    String append() throws IOException {
        WriteJob job = begin();
        Part part = written(job);
        job.commit(present -> with(present, part));
        return part.name();
    }

    /// The names of the parts that count, in the order of their commits.
    List<String> committed() throws IOException {
        Manifest manifest = log.current();
        return manifest == null ? List.of() : manifest.parts().stream().map(Part::name).toList();
    }

    /// The names in one of the table's directories.
    List<String> names(String directory) throws IOException {
        return log.root().child(directory).list().stream().sorted().toList();
    }
}
