package dev.terrace.objects.evaluation.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.evaluation.run.Json;
import java.io.IOException;
import java.math.BigDecimal;
import java.sql.Date;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.junit.jupiter.api.Test;

class AnswerTest {
    private static Answer answer(Row... rows) {
        return Answer.of(List.of(rows));
    }

    private static final Answer TWO =
            answer(RowFactory.create("a", 1000.0, null), RowFactory.create("b", 2L, 3));

    @Test
    void rowsMayComeInAnyOrderAndNumbersDifferALittle() {
        assertTrue(
                TWO.isAbout(
                        answer(
                                RowFactory.create("b", new BigDecimal("2.00"), 3.0),
                                RowFactory.create("a", 1000.0000001, null))));
    }

    @Test
    void otherRowsAreOthers() {
        assertFalse(TWO.isAbout(answer(RowFactory.create("a", 1000.0, null))));
        for (Row other :
                List.of(
                        RowFactory.create("a", 1000.00001, null),
                        RowFactory.create("a", 1000.0, 0),
                        RowFactory.create("c", 1000.0, null),
                        RowFactory.create("a", null, null),
                        RowFactory.create("a", 1000.0),
                        RowFactory.create("b", 2, 3))) {
            assertFalse(TWO.isAbout(answer(other, RowFactory.create("b", 2, 3))), other::toString);
        }
    }

    @Test
    void processesCanTellEachOther() throws IOException {
        Answer all =
                answer(RowFactory.create(1, 0.5f, Date.valueOf("1995-06-17"), "text", true, null));
        Answer read = Json.MAPPER.readValue(Json.MAPPER.writeValueAsBytes(all), Answer.class);
        assertEquals(all, read);
        assertEquals("1995-06-17", read.rows().getFirst().get(2));
    }
}
