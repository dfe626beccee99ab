package dev.terrace.objects.remote;

import dev.terrace.objects.PoolFullException;
import dev.terrace.objects.SegmentStore;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ClusterStorageCapacityExceededException;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSError;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.UnsupportedFileSystemException;

/// Segments in a directory of any file system that Hadoop knows: HDFS, S3, Ceph by one of its
/// gateways, a local one.
///
/// A segment is durable when it is closed, and was brought to the disks before, where the file
/// system can do that. It has its name from the beginning, since nobody reads a segment that no
/// commit leads to: object stores would have to copy it to rename it.
public final class HadoopSegments implements SegmentStore, AutoCloseable {
    private final FileSystem opened;

    /// Without checksums in files of their own, as local file systems have: values have theirs.
    private final FileSystem files;

    private final Path directory;

    private HadoopSegments(FileSystem opened, Path directory) {
        this.opened = opened;
        this.directory = directory;
        files = opened instanceof LocalFileSystem local ? local.getRaw() : opened;
    }

    /// Segments in this directory, as Hadoop's configuration files say; it is made when the first
    /// is written.
    ///
    /// @throws IOException if there is no such file system
    public static HadoopSegments open(URI directory) throws IOException {
        return open(directory, new Configuration());
    }

    /// Segments in this directory; it is made when the first is written.
    ///
    /// @throws IOException if there is no such file system
    public static HadoopSegments open(URI directory, Configuration configuration)
            throws IOException {
        try {
            FileSystem files = FileSystem.newInstance(directory, configuration);
            return new HadoopSegments(files, files.makeQualified(new Path(directory)));
        } catch (IllegalArgumentException | UnsupportedFileSystemException e) {
            // The first is also how Hadoop says that it does not know a host.
            throw new IOException(
                    "'" + directory + "' is no directory of a file system: " + e.getMessage(), e);
        }
    }

    @Override
    public String name() {
        return directory.toString();
    }

    /// A use of the file system.
    private interface Use<T> {
        T get() throws IOException;
    }

    /// Local file systems say that a device fails by an error that holds the exception.
    private static <T> T use(Use<T> use) throws IOException {
        try {
            return use.get();
        } catch (FSError e) {
            throw e.getCause() instanceof IOException cause ? cause : new IOException(e);
        }
    }

    @Override
    public void write(String segment, byte[] bytes) throws IOException {
        Path path = new Path(directory, segment);
        try {
            use(() -> {
                try (FSDataOutputStream out =
                        files.createFile(path).recursive().overwrite(false).build()) {
                    out.write(bytes);
                    if (out.hasCapability(StreamCapabilities.HSYNC)) {
                        out.hsync();
                    }
                }
                syncDirectory();
                return true;
            });
        } catch (org.apache.hadoop.fs.FileAlreadyExistsException e) {
            FileAlreadyExistsException there = new FileAlreadyExistsException(path.toString());
            there.initCause(e);
            throw there;
        } catch (IOException e) {
            if (isFull(e)) {
                throw new PoolFullException(
                        directory
                                + " has no room for a segment of "
                                + bytes.length
                                + " bytes: "
                                + e.getMessage(),
                        e);
            }
            throw e;
        }
    }

    private static boolean isFull(IOException e) {
        String message = String.valueOf(e.getMessage()).toLowerCase(Locale.ROOT);
        return e instanceof ClusterStorageCapacityExceededException
                || message.contains("no space left on device")
                || message.contains("quota exceeded");
    }

    /// That a local file is there is durable only with its directory.
    private void syncDirectory() throws IOException {
        if (files != opened) {
            try (FileChannel channel =
                    FileChannel.open(
                            java.nio.file.Path.of(directory.toUri().getPath()),
                            StandardOpenOption.READ)) {
                channel.force(true);
            }
        }
    }

    @Override
    public byte[] read(String segment, long from, int length) throws IOException {
        Path path = new Path(directory, segment);
        return use(() -> {
            byte[] bytes = new byte[length];
            try (FSDataInputStream in = files.open(path)) {
                in.readFully(from, bytes);
                return bytes;
            } catch (FileNotFoundException e) {
                NoSuchFileException none = new NoSuchFileException(path.toString());
                none.initCause(e);
                throw none;
            }
        });
    }

    @Override
    public void delete(String segment) throws IOException {
        use(() -> files.delete(new Path(directory, segment), false));
    }

    @Override
    public List<String> list() throws IOException {
        return use(() -> {
            List<String> names = new ArrayList<>();
            try {
                for (FileStatus file : files.listStatus(directory)) {
                    names.add(file.getPath().getName());
                }
            } catch (FileNotFoundException none) {
                return names;
            }
            return names;
        });
    }

    @Override
    public void close() throws IOException {
        opened.close();
    }
}
