package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.serializer.JavaSerializer;
import org.apache.spark.serializer.KryoSerializer;
import org.apache.spark.serializer.Serializer;
import org.apache.spark.serializer.SerializerInstance;
import org.junit.jupiter.api.Test;
import org.roaringbitmap.RoaringBitmap;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/// The driver receives the messages of tasks through each serializer that Spark may be set to.
class MessagesTest {
    private static final ClassTag<Object> ANY = ClassTag$.MODULE$.apply(Object.class);
    private static final Part PART =
            new Part(
                    "a",
                    null,
                    "/disk",
                    List.of("host"),
                    3,
                    1,
                    List.of(new ColumnSummary(1, 2, null, null)));

    private static Object sent(Serializer serializer, Object message) {
        SerializerInstance instance = serializer.newInstance();
        return instance.deserialize(instance.serialize(message, ANY), ANY);
    }

    @Test
    void messagesArrive() {
        SparkConf configuration = new SparkConf(false);
        for (Serializer serializer :
                List.of(new JavaSerializer(configuration), new KryoSerializer(configuration))) {
            Part part = PART.with(new Deletions("file", 1, 2, "crc", 1));
            assertEquals(part, sent(serializer, part));
            TableWrite.Written written = new TableWrite.Written(List.of(part, PART));
            assertEquals(written, sent(serializer, written));
            byte[] rows = DeletionFiles.encode(RoaringBitmap.bitmapOf(1, 3, 5));
            RowWriter.Changed changed =
                    (RowWriter.Changed)
                            sent(serializer, new RowWriter.Changed(List.of(part), Map.of(7, rows)));
            assertEquals(List.of(part), changed.added());
            assertEquals(
                    HexFormat.of().formatHex(rows),
                    HexFormat.of().formatHex(changed.deleted().get(7)));
        }
    }
}
