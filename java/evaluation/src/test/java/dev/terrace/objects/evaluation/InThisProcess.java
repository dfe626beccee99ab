package dev.terrace.objects.evaluation;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Json;
import dev.terrace.objects.evaluation.run.Jvm;
import dev.terrace.objects.evaluation.run.Memory;
import dev.terrace.objects.evaluation.run.Outcome;
import dev.terrace.objects.evaluation.run.Processes;
import java.io.IOException;

/// Does work in the process of the test, since a new one for each takes its time; all goes through
/// JSON all the same.
final class InThisProcess implements Processes {
    @Override
    public <R> Outcome<R> run(Jvm jvm, Job<R> job, Class<R> result) throws IOException {
        ObjectMapper json = Json.MAPPER;
        Job<?> read = json.readValue(json.writeValueAsBytes(job), job.getClass());
        try {
            Outcome<?> outcome = new Outcome<>(read.run(), Memory.now());
            return json.readValue(
                    json.writeValueAsBytes(outcome),
                    json.getTypeFactory().constructParametricType(Outcome.class, result));
        } catch (IOException e) {
            throw e;
        } catch (Exception e) {
            throw new IOException(e);
        }
    }
}
