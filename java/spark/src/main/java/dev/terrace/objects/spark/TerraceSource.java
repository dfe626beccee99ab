package dev.terrace.objects.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsCatalogOptions;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/// The format `terrace` of Spark's readers and writers: tables by their paths.
///
/// Tables are those of a [TerraceCatalog] of the name `terrace`, which the session gets if it has
/// none, so that all save modes are there: Spark gives those that create a table only to catalogs.
public final class TerraceSource implements SupportsCatalogOptions, DataSourceRegister {
    /// The format's name, and the catalog's.
    static final String NAME = "terrace";

    private static final String PATH = "path";
    private static final String VERSION = "versionAsOf";
    private static final String TIMESTAMP = "timestampAsOf";

    /// For Spark.
    public TerraceSource() {}

    @Override
    public String shortName() {
        return NAME;
    }

    @Override
    public Identifier extractIdentifier(CaseInsensitiveStringMap options) {
        TableOptions.requireKnown(options);
        return TerraceCatalog.identifierOf(path(options));
    }

    private static String path(Map<String, String> options) {
        String path = options.get(PATH);
        if (path == null || path.isEmpty()) {
            throw new IllegalArgumentException(
                    "the format \""
                            + NAME
                            + "\" needs the path of one table, as in load(path) or save(path)");
        }
        return path;
    }

    @Override
    public String extractCatalog(CaseInsensitiveStringMap options) {
        SparkSession session = SparkSession.active();
        String key = "spark.sql.catalog." + NAME;
        if (session.conf().getOption(key).isEmpty()) {
            session.conf().set(key, TerraceCatalog.class.getName());
        }
        return NAME;
    }

    /// Asked for by readers only: each reads the table as it is now, however often it is run.
    @Override
    public Optional<String> extractTimeTravelVersion(CaseInsensitiveStringMap options) {
        if (options.containsKey(VERSION) || options.containsKey(TIMESTAMP)) {
            return Optional.ofNullable(options.get(VERSION));
        }
        return Optional.of(Long.toString(require(options).number()));
    }

    @Override
    public Optional<String> extractTimeTravelTimestamp(CaseInsensitiveStringMap options) {
        return Optional.ofNullable(options.get(TIMESTAMP));
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        if (TableOptions.areOfStream(options) && TerraceCatalog.table(path(options)).isAbsent()) {
            // The stream makes the table.
            return new StructType();
        }
        return TerraceTable.schema(require(options));
    }

    private static Manifest require(Map<String, String> options) {
        String path = path(options);
        try {
            return TerraceCatalog.log(path).require(Manifest.TABLE);
        } catch (FileNotFoundException e) {
            throw unchecked(TerraceCatalog.noTable(path));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// Spark, which is written in Scala, expects an [AnalysisException] wherever it analyses a
    /// query, though what it calls declares none.
    @SuppressWarnings("unchecked")
    private static <E extends Throwable> RuntimeException unchecked(AnalysisException e) throws E {
        throw (E) e;
    }

    /// The table that an entry of another catalog names by its location, or that a stream reads or
    /// writes to. Spark asks for all in the same words. A stream that writes has options of its
    /// own, and one that reads gives its options again when it plans its scan.
    ///
    /// @throws IllegalArgumentException if it is said which version is wanted: neither an entry nor
    ///   a stream is of one version
    @Override
    public Table getTable(
            StructType schema, Transform[] partitioning, Map<String, String> options) {
        CaseInsensitiveStringMap all = new CaseInsensitiveStringMap(options);
        if (TableOptions.areOfStream(all)) {
            TableOptions.requireKnown(TableOptions.withoutStreams(all));
            return TerraceCatalog.table(path(all));
        }
        Set<String> required = new TreeSet<>();
        for (String name : all.keySet()) {
            if (name.equalsIgnoreCase(VERSION)
                    || name.equalsIgnoreCase(TIMESTAMP)
                    || name.equalsIgnoreCase(TableOptions.PARTITION_BY)) {
                throw withoutEffect(name);
            }
            if (TableOptions.isKept(name.toLowerCase(Locale.ROOT)) || StreamOptions.has(name)) {
                required.add(name);
            }
        }
        return TerraceCatalog.table(path(all)).requiring(required);
    }

    /// The exception for an option that no query would follow.
    static IllegalArgumentException withoutEffect(String option) {
        return new IllegalArgumentException(
                "the option "
                        + option
                        + " has no effect in a catalog's entry of a table, and a stream is of no"
                        + " one version: give it to the write that makes the table, or to the"
                        + " query. A stream that reads begins at the option "
                        + StreamOptions.STARTING_VERSION
                        + "; one that writes needs the option checkpointLocation");
    }
}
