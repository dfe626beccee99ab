package dev.terrace.objects.tools;

import dev.terrace.objects.Pool;
import java.io.IOException;
import java.util.Map;
import picocli.CommandLine.Command;

/// Makes a pool's contents final.
@Command(
        name = "seal",
        description =
                "Seals a pool: its contents never change again, so programs read it faster, and"
                    + " every attempt to write to it is refused. A seal cannot be taken back. Opens"
                    + " the pool to write: no program may have it open for that.")
final class SealCommand extends PoolCommand {
    @Override
    public Integer call() throws IOException {
        try (PoolArguments.Opened opened = arguments.openToWrite()) {
            Pool pool = opened.pool();
            pool.seal();
            out().println(arguments.isJson() ? Json.of(Map.of("sealed", true)) : "sealed");
            return Main.OK;
        }
    }
}
