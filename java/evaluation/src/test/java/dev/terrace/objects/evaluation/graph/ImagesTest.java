package dev.terrace.objects.evaluation.graph;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.EOFException;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class ImagesTest {
    private static final SocialGraph GRAPH =
            new SocialGraph(new int[][] {{1}, {0}, {}}, new int[][] {{0}, {}, {900}});

    @TempDir Path directory;

    @ParameterizedTest
    @EnumSource
    void eachLayoutHasTheImageOfEachPersonAgainAndAgain(ImageLayout layout) throws IOException {
        Path graph = directory.resolve("graph");
        GraphFile.write(graph, GRAPH, 2);
        Path pmem = Files.createDirectory(directory.resolve("pmem"));
        Path disk = Files.createDirectory(directory.resolve("disk"));
        layout.load(graph, pmem, disk, 6);
        try (ImageLayout.Opened opened = layout.open(graph, pmem, disk, 6)) {
            for (int number : new int[] {5, 0, 3, 5, 0}) {
                assertArrayEquals(Image.of(number), opened.images().image(number));
            }
            assertArrayEquals(new int[] {4}, opened.people().friends(3));
        }
    }

    @Test
    void imagesOfTwoPeopleDiffer() {
        assertEquals(10_000, Image.of(1).length);
        assertNotEquals(Image.sum(Image.of(1)), Image.sum(Image.of(2)));
        assertEquals(Image.sum(Image.of(1)), Image.sum(Image.of(1)));
    }

    @Test
    void aTruncatedFileOfImagesIsNamed() throws IOException {
        Path file = directory.resolve("images");
        FileImages.write(file, 2);
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
            channel.truncate(2 * Image.BYTES - 1);
        }
        try (FileImages images = new FileImages(file)) {
            assertArrayEquals(Image.of(0), images.image(0));
            String message = assertThrows(EOFException.class, () -> images.image(1)).getMessage();
            assertTrue(message.contains(file.toString()), message);
        }
    }
}
