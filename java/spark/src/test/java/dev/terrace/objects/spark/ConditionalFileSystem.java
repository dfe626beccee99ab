package dev.terrace.objects.spark;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.fs.Abortable;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.jspecify.annotations.Nullable;

/// A file system with conditional creation, as Hadoop specifies that: `conditional:/a/b` is what is
/// at `/a/b`. Writes fail half-way when they are told to.
public final class ConditionalFileSystem extends RawLocalFileSystem {
    /// How many of the next writes fail.
    static final AtomicInteger FAILURES = new AtomicInteger();

    @Override
    public URI getUri() {
        return URI.create("conditional:///");
    }

    @Override
    public String getScheme() {
        return "conditional";
    }

    @Override
    public boolean hasPathCapability(Path path, String capability) throws IOException {
        return capability.equals(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE)
                || capability.equals(CommonPathCapabilities.ABORTABLE_STREAM)
                || super.hasPathCapability(path, capability);
    }

    @Override
    @SuppressWarnings("rawtypes")
    public FSDataOutputStreamBuilder createFile(Path path) {
        return new Builder(path);
    }

    private final class Builder extends FSDataOutputStreamBuilder<FSDataOutputStream, Builder> {
        Builder(Path path) {
            super(ConditionalFileSystem.this, path);
        }

        @Override
        public Builder getThisBuilder() {
            return this;
        }

        @Override
        public FSDataOutputStream build() throws IOException {
            if (!getMandatoryKeys()
                    .contains(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE)) {
                throw new IOException("without a condition");
            }
            return new FSDataOutputStream(new Upload(getPath()), statistics);
        }
    }

    /// Bytes that get their name when they are complete.
    private static final class Upload extends OutputStream implements Abortable {
        private final Path path;
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private boolean isClosed;

        Upload(Path path) {
            this.path = path;
        }

        @Override
        public void write(int value) {
            bytes.write(value);
        }

        @Override
        public void write(byte[] from, int offset, int length) throws IOException {
            if (FAILURES.getAndUpdate(left -> Math.max(0, left - 1)) > 0) {
                bytes.write(from, offset, length / 2);
                throw new IOException("no room for more");
            }
            bytes.write(from, offset, length);
        }

        @Override
        public void close() throws IOException {
            if (isClosed) {
                return;
            }
            isClosed = true;
            java.nio.file.Path local = java.nio.file.Path.of(path.toUri().getPath());
            Files.createDirectories(local.getParent());
            try {
                Files.write(local, bytes.toByteArray(), StandardOpenOption.CREATE_NEW);
            } catch (java.nio.file.FileAlreadyExistsException e) {
                throw new FileAlreadyExistsException(path.toString());
            }
        }

        @Override
        public @Nullable AbortableResult abort() {
            isClosed = true;
            return null;
        }
    }
}
