package dev.terrace.objects.spark;

import java.net.URI;
import org.apache.hadoop.fs.RawLocalFileSystem;

/// A file system that is remote as far as anybody can tell: `remote:/a/b` is what is at `/a/b`.
public final class RemoteFileSystem extends RawLocalFileSystem {
    @Override
    public URI getUri() {
        return URI.create("remote:///");
    }

    @Override
    public String getScheme() {
        return "remote";
    }
}
