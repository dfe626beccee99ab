package dev.terrace.objects.evaluation.queries;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.evaluation.spark.Answer;
import dev.terrace.objects.evaluation.spark.LocalSpark;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Each query finds the same on all kinds of tables, and finds something.
class QueryTest {
    private static final double SCALE = 0.02;

    @TempDir private Path directory;

    @Test
    void allTablesGiveTheSameAnswers() throws Exception {
        new GenerateJob(SCALE, directory, directory).run();
        Map<Query, Answer> wanted = answers(Storage.PARQUET_PLAIN);
        for (Query query : Query.values()) {
            // Orders that are large enough are rarer than one of all orders here.
            if (query != Query.Q18) {
                assertFalse(wanted.get(query).rows().isEmpty(), query::name);
                assertFalse(wanted.get(query).rows().getFirst().contains(null), query::name);
            }
        }
        Answer large = ordersOver250(Storage.PARQUET_PLAIN);
        assertFalse(large.rows().isEmpty());
        assertTrue(ordersOver250(Storage.TERRACE).isAbout(large));
        assertEquals(4, wanted.get(Query.Q1).rows().size());
        assertEquals(5, wanted.get(Query.Q4).rows().size());
        for (Storage storage : List.of(Storage.TERRACE, Storage.CACHED)) {
            Map<Query, Answer> found = answers(storage);
            for (Query query : Query.values()) {
                assertTrue(
                        found.get(query).isAbout(wanted.get(query)),
                        () ->
                                storage.title
                                        + ", "
                                        + query
                                        + ": "
                                        + found.get(query)
                                        + ", and not "
                                        + wanted.get(query));
            }
        }
    }

    private Answer ordersOver250(Storage storage) throws IOException {
        try (SparkSession session = LocalSpark.start(directory)) {
            new QueriesJob(storage, directory, directory, 0, 1).open(session);
            String sql = Query.Q18.sql.replace("> 300", "> 250");
            return Answer.of(session.sql(sql).collectAsList());
        }
    }

    private Map<Query, Answer> answers(Storage storage) throws Exception {
        QueriesJob.Result result = new QueriesJob(storage, directory, directory, 0, 1).run();
        assertTrue(result.seconds().values().stream().allMatch(seconds -> seconds > 0));
        assertEquals(storage == Storage.CACHED, result.cachedBytes() > 0);
        return result.answers();
    }
}
