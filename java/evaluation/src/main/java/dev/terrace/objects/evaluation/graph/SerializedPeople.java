package dev.terrace.objects.evaluation.graph;

import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/// People in a file, each in the form of Java's serialization. Those that were looked at last are
/// kept on half of the heap.
///
/// The file is all of them, then where each ends, then how many there are.
final class SerializedPeople extends PlainPeople {
    /// The rough number of bytes of a person on the heap, with the references to it.
    private static final int BYTES_EACH = 1500;

    private final FileChannel file;
    private final long[] ends;
    private final Map<Integer, Person> cache =
            new LastUsed((int) (Runtime.getRuntime().maxMemory() / 2 / BYTES_EACH));

    /// Opens the file.
    SerializedPeople(Path path) throws IOException {
        file = FileChannel.open(path);
        long indexEnd = file.size() - Integer.BYTES;
        int count = read(indexEnd, Integer.BYTES).getInt();
        ends = new long[count];
        read(indexEnd - (long) count * Long.BYTES, count * Long.BYTES).asLongBuffer().get(ends);
    }

    /// People, as many as there is room for.
    private static final class LastUsed extends LinkedHashMap<Integer, Person> {
        private static final long serialVersionUID = 1;

        private final int most;

        LastUsed(int most) {
            super(16, 0.75f, true);
            this.most = most;
        }

        @Override
        protected boolean removeEldestEntry(Map.Entry<Integer, Person> eldest) {
            return size() > most;
        }
    }

    /// Makes the file.
    static void load(Path graph, Path path) throws IOException {
        List<Long> ends = new ArrayList<>();
        try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(path), 1 << 16)) {
            GraphFile.read(
                    graph,
                    AllPmemPerson::new,
                    person -> {
                        byte[] bytes = serialize(person);
                        ends.add((ends.isEmpty() ? 0 : ends.getLast()) + bytes.length);
                        write(out, bytes);
                    });
            DataOutputStream index = new DataOutputStream(out);
            for (long end : ends) {
                index.writeLong(end);
            }
            index.writeInt(ends.size());
        }
    }

    private static byte[] serialize(Person person) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(person);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return bytes.toByteArray();
    }

    private static void write(OutputStream out, byte[] bytes) {
        try {
            out.write(bytes);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    Person person(int number) {
        Person person = cache.get(number);
        if (person == null) {
            person = deserialize(number);
            cache.put(number, person);
        }
        return person;
    }

    private Person deserialize(int number) {
        long begin = number == 0 ? 0 : ends[number - 1];
        try (ObjectInputStream in =
                new ObjectInputStream(
                        new ByteArrayInputStream(
                                read(begin, (int) (ends[number] - begin)).array()))) {
            return (Person) in.readObject();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (ClassNotFoundException e) {
            throw new AssertionError("the class is this program's own", e);
        }
    }

    private ByteBuffer read(long from, int length) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(length);
        while (buffer.hasRemaining() && file.read(buffer, from + buffer.position()) >= 0) {
            // As long as there is more.
        }
        return buffer.flip();
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
